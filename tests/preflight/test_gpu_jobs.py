"""Jobs out of Prometheus' answers: what is not known is never zero, and what is zero is known."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoscaler.adapters.prometheus.answers import Trouble
from autoscaler.adapters.prometheus.archive import Loss
from autoscaler.adapters.prometheus.jobs import HELD, OF_JOBS, OF_PODS, OWNERS, PENDING, job_questions
from autoscaler.preflight.gpu_jobs import JobHistory, lost_parts, recorded_jobs
from autoscaler.preflight.history import Gap, Missing, Spread
from autoscaler.preflight.job_study import queue_study, queues_of
from autoscaler.preflight.job_words import batch_lines
from tests.preflight.builders import value
from tests.preflight.job_answers import DAY, DAY_S, answers, window
from tests.prometheus.past import archive, past

NAN = float("nan")


def first_half(value: float, other: float = NAN, days: int = 2) -> Any:
    return np.where(np.arange(days * DAY) < days * DAY // 2, value, other)


def only(*made: Any, **how: Any) -> JobHistory:
    found = recorded_jobs(answers(*made, **how))
    assert isinstance(found, tuple), found
    (one,) = found
    return one


def test_a_namespace_without_a_series_held_nothing_while_it_was_looked() -> None:
    one = only(2, {(HELD, "lab"): first_half(8.0)})
    assert one.namespace == "lab"
    assert (one.held == first_half(8.0, 0.0)).all()
    assert (one.waiting == 0.0).all()


def test_what_was_held_while_nobody_looked_is_not_known() -> None:
    one = only(2, {(HELD, "lab"): first_half(8.0)}, seen=first_half(3.0))
    assert (one.held[:DAY] == 8.0).all()
    assert np.isnan(one.held[DAY:]).all()
    assert np.isnan(one.waiting[DAY:]).all()


@pytest.mark.parametrize("gone", OF_PODS)
def test_a_metric_that_ends_half_way_ends_what_is_known(gone: str) -> None:
    names = dict.fromkeys((*OF_PODS, *OF_JOBS), np.full(96, 9.0))
    names[gone] = np.where(np.arange(96) < 48, 9.0, NAN)
    one = only(2, {(HELD, "lab"): first_half(8.0)}, names=names)
    assert (one.held[:DAY] == 8.0).all()
    assert np.isnan(one.held[DAY:]).all(), "no series of GPUs held would pass for none held"


@pytest.mark.parametrize("gone", OF_PODS)
def test_without_one_of_the_metrics_nothing_is_told_and_it_is_named(gone: str) -> None:
    names = dict.fromkeys([name for name in (*OF_PODS, *OF_JOBS) if name != gone], 9.0)
    found = recorded_jobs(answers(2, {}, names=names))
    assert isinstance(found, Missing)
    assert found.text == f"no series of {gone} in the window"


CURES = {
    Trouble.REFUSED: "a Prometheus that takes this query",
    Trouble.UNREACHABLE: "the same command again, with a longer --query-timeout",
    Trouble.PARTIAL: "once the stores that it lacks are back",
    Trouble.TOO_MANY: "fewer series: --namespace, or fewer --days",
}


@pytest.mark.parametrize(("trouble", "cure"), CURES.items(), ids=[trouble.name for trouble in CURES])
@pytest.mark.parametrize(("name", "how"), [("names", {"names": {}}), ("held", {"seen": NAN})], ids=["names", "held"])
def test_what_prometheus_would_not_answer_is_the_reason_and_no_collector_cures_it(
    name: str, how: dict[str, Any], trouble: Trouble, cure: str
) -> None:
    loss = Loss(0, 1, trouble, "its own words")
    found = recorded_jobs(answers(2, {}, losses={name: (loss,)}, **how))
    (words,) = batch_lines(queues_of(found), 12)
    assert words.startswith("GPU Jobs: not measured: its own words (needed: ")
    assert cure in words
    assert "kube-state-metrics" not in words


def test_whoever_is_denied_needs_a_token_for_what_was_asked() -> None:
    denied = Missing(Gap.DENIED, "HTTP 403")
    for namespaces, words in (((), "series of all namespaces"), (("lab",), "series of these namespaces")):
        (line,) = batch_lines(queues_of(denied, namespaces), 12)
        assert words in line


def test_a_lost_part_is_told_with_its_times_where_the_rest_is_known() -> None:
    loss = Loss(1_700_000_000, 1_700_003_600, Trouble.PARTIAL, "a store is away")
    given = answers(2, {(HELD, "lab"): first_half(8.0)}, losses={"held": (loss,)})
    assert isinstance(recorded_jobs(given), tuple)
    assert lost_parts(given) == (
        "GPU Jobs: not known from 2023-11-14 22:13:20Z to 2023-11-14 23:13:20Z: a store is away",
    )
    assert lost_parts(answers(2, {})) == ()


@pytest.mark.parametrize("gone", OF_JOBS)
def test_a_metric_of_jobs_that_may_be_in_a_lost_part_is_not_called_absent(gone: str) -> None:
    names = dict.fromkeys([name for name in (*OF_PODS, *OF_JOBS) if name != gone], 9.0)
    loss = Loss(0, 1, Trouble.UNREACHABLE, "timed out")
    one = only(2, {(HELD, "lab"): 8.0}, names=names, losses={"names": (loss,)})
    assert one.lasted == Missing(Gap.UNREACHABLE, "timed out")
    lines = batch_lines(queues_of((one,)), 12)
    assert "timed out (needed: an answer: the same command again" in lines[-1]


def test_a_cluster_without_gpu_jobs_was_looked_at_and_has_none() -> None:
    assert recorded_jobs(answers(2, {})) == ()


def test_jobs_too_short_for_a_look_are_known_by_their_ends() -> None:
    one = only(2, {}, ended={("lab", "24"): 1.0})
    assert (one.held == 0.0).all()
    assert isinstance(one.lasted, Spread)
    assert one.lasted.counts.sum() == 48.0, "one an hour"
    assert one.lasted.edges_s[-1] == 64.0, "rung 24 ends at 2^6 s"


def test_rungs_are_buckets_without_gaps_and_of_its_own_namespace() -> None:
    ended = {("lab", "40"): NAN, ("lab", "44"): 2.0, ("lab", "48"): 1.0, ("team", "60"): 5.0, ("lab", "odd"): 7.0}
    found = recorded_jobs(answers(2, {(PENDING, "team"): 1.0}, ended=ended))
    assert isinstance(found, tuple)
    lab, team = (one.lasted for one in found)
    assert isinstance(lab, Spread)
    assert isinstance(team, Spread)
    assert lab.edges_s[[0, 1, 5, 9]] == pytest.approx([2**9.75, 1024.0, 2048.0, 4096.0])
    assert lab.counts[[1, 5, 9]].tolist() == [0.0, 96.0, 48.0]
    assert team.counts.sum() == 240.0


JOBS_UNKNOWN = {
    "no collector of jobs": (OF_PODS, {}, "no series of kube_job_status_start_time in the window"),
    "none completed": ((*OF_PODS, OF_JOBS[0]), {}, "no Job completed, or the metric is not kept"),
    "a part was lost": (
        (*OF_PODS, *OF_JOBS),
        {"ended": (Loss(0, 1, Trouble.UNREACHABLE, "timed out"),)},
        "a part was not answered: timed out",
    ),
}


@pytest.mark.parametrize(("names", "losses", "words"), JOBS_UNKNOWN.values(), ids=JOBS_UNKNOWN.keys())
def test_how_long_jobs_ran_is_missing_by_itself(names: Any, losses: Any, words: str) -> None:
    one = only(2, {(HELD, "lab"): 8.0}, names=dict.fromkeys(names, 1.0), losses=losses)
    assert (one.held == 8.0).all()
    assert isinstance(one.lasted, Missing)
    assert words in one.lasted.text


async def test_three_questions_are_asked_and_kept_whatever_the_number_of_namespaces(tmp_path: Path) -> None:
    asked = job_questions(window(14))
    async with past() as fake:
        fake.ranges["headroom_signal"] = lambda t_s: [
            ({"headroom_signal": "seen"}, np.ones(t_s.size)),
            ({"headroom_signal": "held", "namespace": "lab"}, np.full(t_s.size, 4.0)),
        ]
        fake.ranges["count by(__name__)"] = lambda t_s: [({"__name__": name}, np.ones(t_s.size)) for name in OF_PODS]
        async with archive(fake.url, tmp_path) as parts:
            await parts.fetch(asked, lambda _done, _parts: None)
            await parts.fetch(asked, lambda _done, _parts: None)
            found = recorded_jobs({one.name: (one, parts.past(one)) for one in asked})
    assert len(fake.asked) == 3
    assert isinstance(found, tuple)
    assert (found[0].held == 4.0).all()
    assert all(int(form["end"]) <= window(14).end_s for form in fake.asked), "nothing is asked of the future"


async def test_nights_without_jobs_are_known_where_nothing_but_the_collectors_of_pods_and_jobs_is_kept(
    tmp_path: Path,
) -> None:
    """8 GPUs for 8 h of each of 7 days, and no pod of any Job in between: half of the time none are held."""

    def held(t_s: np.ndarray) -> Any:
        return np.where(t_s % DAY_S < DAY_S // 3, 8.0, NAN)

    def looked(t_s: np.ndarray) -> Any:
        kept = {OWNERS: np.full(t_s.size, 90.0), f'{OWNERS}{{owner_kind="Job"}}': held(t_s)}
        counted = [kept.get(one, np.full(t_s.size, NAN)) for one in re.findall(r"count\(([^)]+)\)", query)]
        seen = ({"headroom_signal": "seen"}, np.fmax.reduce(counted))
        return [seen, ({"headroom_signal": "held", "namespace": "lab"}, held(t_s))]

    asked = job_questions(window(7))
    query = next(one.query for one in asked if one.name == "held")
    async with past() as fake:
        fake.ranges["headroom_signal"] = looked
        fake.ranges["count by(__name__)"] = lambda t_s: [({"__name__": name}, np.ones(t_s.size)) for name in OF_PODS]
        async with archive(fake.url, tmp_path) as parts:
            await parts.fetch(asked, lambda _done, _parts: None)
            found = recorded_jobs({one.name: (one, parts.past(one)) for one in asked})
    assert isinstance(found, tuple)
    told = queue_study(found[0])
    assert (value(told.usual), value(told.high)) == (0.0, 8.0)
    assert np.isfinite(found[0].held).all()
