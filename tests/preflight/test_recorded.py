"""From answers to a history: what is unknown is NaN, lies in a hole, and the hole says why."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.adapters.engines.catalogue import LLM_D_EPP, VLLM
from autoscaler.adapters.engines.profiles import Series, custom
from autoscaler.adapters.prometheus.answers import Trouble
from autoscaler.adapters.prometheus.archive import Loss, Past
from autoscaler.adapters.prometheus.questions import SIGNAL, Subject, Window, questions
from autoscaler.preflight.history import Gap, Hole, Missing, Spread, Track, WorkloadHistory
from autoscaler.preflight.holes import MOST_HOLES
from autoscaler.preflight.recorded import recorded

STEPS = 240
WINDOW = Window(1_699_999_200, 30, STEPS)
SUBJECT = Subject(
    "team/chat", 'namespace="team"', VLLM, (Series("vllm:e2e_request_latency_seconds"),),
    gateway='namespace="edge"', gateway_profile=LLM_D_EPP,
)  # fmt: skip
ASKED = {one.name: one for one in questions(SUBJECT, WINDOW)}
ALL = np.arange(STEPS, dtype=np.float64)

Rows = dict[str, np.ndarray]


def signals(**rows: np.ndarray) -> tuple[tuple[dict[str, str], ...], np.ndarray]:
    return tuple({SIGNAL: name} for name in rows), np.array(list(rows.values()))


def history(*, losses: dict[str, tuple[Loss, ...]] | None = None, **answers) -> WorkloadHistory:
    """From answers by question, each labels and values; what is not given was not asked."""
    gone = losses or {}
    told = {name: (ASKED[name], Past(labels, values, gone.get(name, ()))) for name, (labels, values) in answers.items()}
    return recorded(SUBJECT, WINDOW, told)


def track(signal: object) -> Track:
    assert isinstance(signal, Track), signal
    return signal


def lost(first: int, end: int, trouble: Trouble = Trouble.UNREACHABLE) -> Loss:
    return Loss(WINDOW.start_s + 30 * first, WINDOW.start_s + 30 * end, trouble, "gone")


def holes(signal: object) -> list[tuple[Gap, int, int]]:
    def step(at_s: float) -> int:
        return round((at_s - WINDOW.start_s) / 30)

    return [(one.gap, step(one.from_s), step(one.until_s)) for one in track(signal).holes]


def test_a_lost_part_is_a_hole_and_what_nobody_recorded_is_another() -> None:
    values = ALL.copy()
    values[50:100] = np.nan
    values[200:210] = np.nan
    told = history(load=signals(running=values), losses={"load": (lost(50, 100),)})
    assert holes(told.running) == [(Gap.UNREACHABLE, 50, 100), (Gap.NOT_RECORDED, 200, 210)]
    assert np.isnan(track(told.running).values).sum() == 60


def test_what_is_lost_altogether_is_missing_for_the_losses_reason() -> None:
    told = history(load=((), np.empty((0, STEPS))), losses={"load": (lost(0, 120), lost(120, STEPS))})
    assert told.running == Missing(Gap.UNREACHABLE, "gone")


def test_what_is_partly_lost_and_nowhere_else_is_not_said_to_be_unrecorded_without_a_word() -> None:
    told = history(load=((), np.empty((0, STEPS))), losses={"load": (lost(0, 120),)})
    assert isinstance(told.running, Missing)
    assert told.running.text == "no series of vllm:num_requests_running in the window; 1 parts of it were not answered"


def test_nan_and_infinity_are_unknown_and_never_a_number() -> None:
    values = ALL.copy()
    values[10], values[20], values[30] = np.nan, np.inf, -np.inf
    told = history(load=signals(running=values))
    assert holes(told.running) == [(Gap.NOT_RECORDED, n, n + 1) for n in (10, 20, 30)]


def test_zero_is_a_number() -> None:
    told = history(load=signals(running=np.zeros(STEPS)))
    assert track(told.running).holes == ()
    assert (track(told.running).values == 0).all()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.booleans(), min_size=STEPS, max_size=STEPS), st.integers(0, 200), st.integers(1, 40))
def test_every_unknown_step_lies_in_a_hole_and_holes_are_few(known: list[bool], first: int, length: int) -> None:
    values = np.where(known, ALL, np.nan)
    values[first : first + length] = np.nan
    told = track(history(load=signals(running=values), losses={"load": (lost(first, first + length),)}).running)
    at = WINDOW.start_s + 30 * ALL
    covered = np.zeros(STEPS, dtype=bool)
    for hole in told.holes:
        covered |= (at >= hole.from_s) & (at < hole.until_s)
    assert not (np.isnan(told.values) & ~covered).any()
    assert len(told.holes) <= MOST_HOLES + 1


def test_many_small_holes_are_told_as_stretches_that_say_how_much_of_them_is_missing() -> None:
    values = np.where(ALL % 2 == 0, np.nan, ALL)
    told = track(history(load=signals(running=values)).running)
    assert len(told.holes) == MOST_HOLES
    assert sum("of" in hole.text and "steps" in hole.text for hole in told.holes) >= 1


def test_no_replica_at_all_is_zero_and_none_that_answers_is_unknown() -> None:
    running = np.where((ALL >= 60) & (ALL < 180), np.nan, 3.0)
    standing = np.where((ALL >= 60) & (ALL < 120), 0.0, 1.0)
    told = history(load=signals(running=running, replicas=running, kv_usage_ratio=running / 10, standing=standing))
    for signal in (told.running, told.replicas):
        assert set(track(signal).values[60:120]) == {0.0}
        assert holes(signal) == [(Gap.NOT_RECORDED, 120, 180)]
    assert holes(told.kv_usage_ratio) == [(Gap.NOT_RECORDED, 60, 180)], "the memory of no replica has no share in use"


def test_a_share_above_one_is_refused() -> None:
    usage = np.where(ALL < 120, 0.5, 55.0)
    told = history(load=signals(kv_usage_ratio=usage)).kv_usage_ratio
    assert holes(told) == [(Gap.REFUSED, 120, STEPS)]
    assert np.isnan(track(told).values[120:]).all()


def presence(**seen: tuple[int, int]) -> tuple[tuple[dict[str, str], ...], np.ndarray]:
    """Names (without their prefix) by the first and the last look, of ten minutes each, at which they were seen."""
    looks = np.arange(ASKED["presence"].points)
    rows = [np.where((looks >= first) & (looks <= last), 4.0, np.nan) for first, last in seen.values()]
    return tuple({"__name__": f"vllm:{name}"} for name in seen), np.array(rows)


RENAMES = {
    "one ends and the other begins": ((0, 4), (5, 11), [(5, 15)]),
    "a roll-out during which both are there": ((0, 7), (5, 11), [(5, 7)]),
    "an engine that emits both": ((0, 11), (0, 11), []),
    "an engine that begins to emit both": ((0, 11), (5, 11), []),
}


@pytest.mark.parametrize(("old", "new", "expected"), RENAMES.values(), ids=RENAMES.keys())
def test_a_rename_is_noted_where(old, new, expected) -> None:
    seen = presence(gpu_cache_usage_perc=old, kv_cache_usage_perc=new)
    told = history(load=signals(kv_usage_ratio=np.full(STEPS, 0.5)), presence=seen)
    renames = [hole for hole in track(told.kv_usage_ratio).holes if hole.gap is Gap.RENAMED]
    assert len(renames) == len(expected)
    for hole in renames:
        assert WINDOW.start_s < hole.from_s <= hole.until_s < WINDOW.end_s
        assert hole.text.startswith("vllm:gpu_cache_usage_perc until 2023-11-1")
    assert not np.isnan(track(told.kv_usage_ratio).values).any(), "a note takes nothing away"


def test_a_replica_under_two_scrapers_makes_sums_unknown_and_leaves_counts_and_shares() -> None:
    looks = ASKED["presence"].points
    scrapers = np.where(np.arange(looks) < looks // 2, 1.0, 2.0)
    told = history(
        load=signals(running=ALL, replicas=np.full(STEPS, 2.0)), flow=signals(arrivals_per_s=ALL),
        presence=signals(scrapers=scrapers),
    )  # fmt: skip
    assert holes(told.running) == [(Gap.AMBIGUOUS, 120, STEPS)]
    assert holes(told.arrivals_per_s) == [(Gap.AMBIGUOUS, 120, STEPS)]
    assert np.isnan(track(told.running).values[120:]).all()
    assert track(told.replicas).holes == ()


def test_what_a_gateway_holds_and_sends_is_the_queue_and_the_arrivals() -> None:
    told = history(
        load=signals(waiting=np.full(STEPS, 2.0)), flow=signals(arrivals_per_s=np.full(STEPS, 9.0)),
        gateway=signals(queued=np.full(STEPS, 3.0), dispatched_per_s=np.full(STEPS, 10.0), turned_away_per_s=ALL),
    )  # fmt: skip
    assert set(track(told.waiting).values) == {5.0}
    assert (track(told.arrivals_per_s).values == 10.0 + ALL).all()
    unknown = history(load=signals(waiting=np.full(STEPS, 2.0)), gateway=((), np.empty((0, STEPS))))
    assert isinstance(unknown.waiting, Missing), "what only a part of the queues knows is not known"
    assert isinstance(unknown.arrivals_per_s, Missing)
    assert "no series of llm_d_epp_request_total" in unknown.arrivals_per_s.text


def test_what_was_too_much_says_how_much_there_is() -> None:
    values = np.where(ALL < 120, np.nan, ALL)
    told = history(
        load=signals(running=values), presence=presence(num_requests_running=(6, 11)),
        losses={"load": (lost(0, 120, Trouble.TOO_MANY),)},
    )  # fmt: skip
    assert track(told.running).holes[0].text == "gone; it is up to 4 series"


def test_where_it_is_not_known_whether_sums_count_twice_they_say_so() -> None:
    told = history(
        load=signals(running=ALL, replicas=ALL), presence=signals(scrapers=np.full(ASKED["presence"].points, 1.0)),
        losses={"presence": (lost(0, 120),)},
    )  # fmt: skip
    assert holes(told.running) == [(Gap.UNREACHABLE, 0, 120)]
    assert track(told.running).holes[0].text == "whether a replica is counted twice was not told: gone"
    assert (track(told.running).values == ALL).all()
    assert track(told.replicas).holes == ()


def buckets(*rows: tuple[str, list[float]]) -> tuple[tuple[dict[str, str], ...], np.ndarray]:
    points = ASKED["duration"].points
    values = np.full((len(rows), points), np.nan)
    for row, (_, given_values) in zip(values, rows, strict=True):
        row[: len(given_values)] = given_values
    return tuple({"le": le} for le, _ in rows), values


def test_a_histogram_is_taken_apart_piece_by_piece() -> None:
    rows = buckets(("+Inf", [10, 20]), ("0.5", [4, 5]), ("2.0", [9, 20]))
    told = history(duration=rows).duration
    assert isinstance(told, Spread)
    assert (told.edges_s.tolist(), told.counts.tolist()) == ([0.5, 2.0, np.inf], [9.0, 20.0, 1.0])
    assert {hole.gap for hole in told.holes} == {Gap.NOT_RECORDED}


def test_bounds_that_change_half_way_are_each_pieces_own() -> None:
    nan = float("nan")
    rows = buckets(("+Inf", [10, 10]), ("0.5", [4, nan]), ("1", [nan, 6]), ("1.0", [nan, 0]), ("2", [9, 10]))
    told = history(duration=rows).duration
    assert isinstance(told, Spread)
    assert (told.edges_s.tolist(), told.counts.tolist()) == ([0.5, 1.0, 2.0, np.inf], [4.0, 6.0, 9.0, 1.0])


BROKEN = {
    "buckets that fall": (buckets(("0.5", [9.0]), ("+Inf", [4.0])), Gap.AMBIGUOUS, "do not add up"),
    "no request": (buckets(("0.5", [0.0]), ("+Inf", [0.0])), Gap.NOT_RECORDED, "no request was counted"),
    "no bound": (buckets(("many", [1.0])), Gap.NOT_RECORDED, "no series of vllm:e2e"),
}


@pytest.mark.parametrize(("rows", "gap", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_histogram_that_tells_nothing_is_missing(rows, gap: Gap, words: str) -> None:
    told = history(duration=rows).duration
    assert isinstance(told, Missing)
    assert (told.gap, words in told.text) == (gap, True)


def test_what_an_engine_has_no_metric_for_is_not_recorded() -> None:
    own = Subject("team/own", 'namespace="team"', custom("own", {"running": "my_running"}))
    told = recorded(own, WINDOW, {})
    assert told.queue_wait == Missing(Gap.NOT_RECORDED, "the engine (own) keeps no histogram of it")
    assert isinstance(told.arrivals_per_s, Missing)
    assert isinstance(told.cold_start, Missing)


def test_cold_starts_are_exact() -> None:
    started = Subject("team/chat", 'namespace="team"', VLLM, starts_s=(60.0, 60.0, 90.0))
    told = recorded(started, WINDOW, {}).cold_start
    assert isinstance(told, Spread)
    assert (told.edges_s.tolist(), told.counts.tolist(), told.exact) == ([60.0, 90.0], [2.0, 1.0], True)


def test_origins_name_the_metric_that_was_there_and_the_query() -> None:
    told = history(
        load=signals(kv_usage_ratio=np.full(STEPS, 0.5)), presence=presence(gpu_cache_usage_perc=(0, 11))
    ).kv_usage_ratio
    assert track(told).origin.startswith("Prometheus, vllm:gpu_cache_usage_perc: label_replace(")


def test_a_hole_knows_no_time_outside_of_the_window() -> None:
    before = Loss(WINDOW.start_s - 3000, WINDOW.start_s + 300, Trouble.PARTIAL, "early")
    told = history(load=signals(running=ALL), losses={"load": (before,)})
    assert track(told.running).holes == (Hole(float(WINDOW.start_s), WINDOW.start_s + 300.0, Gap.PARTIAL, "early"),)
