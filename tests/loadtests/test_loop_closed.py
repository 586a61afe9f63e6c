"""The closed loop: what can be read, silly policies scored by hand arithmetic, plain rivals, and the real child."""

import re
import sys
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import pytest

from autoscaler.errors import HeadroomError
from loadtests.loop.closed import Case, best_constant, closed_loop
from loadtests.loop.fleet import Fleet, Requests
from loadtests.loop.loads import Load, steady
from loadtests.loop.policies import Constant, Decide, Hpa
from loadtests.loop.readings import Asked, Faults, Reader
from loadtests.loop.scores import mean, mean_from, recovery, turns
from tests.conftest import ROOT
from tests.loadtests.loop_builders import every, make_plant, make_requests

TWO = Fleet(2, "gateway", 1, start_s=100.0)


class Given:
    """Requests that were written down."""

    def __init__(self, requests: Requests) -> None:
        self._given = requests

    def requests(self, for_s: int, slots: int, seed: int) -> Requests:
        return self._given


class Alternates:
    """Orders two and one in turn."""

    def decide(self, line: dict[str, Any]) -> int:
        return 1 if line["replicas"]["desired"] == 2 else 2


def case_of(requests: Requests, fleet: Fleet = TWO, **fields: Any) -> Case:
    return Case("by-hand", Given(requests), fleet, 600, **fields)


def test_a_line_tells_what_an_outsider_can_read() -> None:
    """At 10 s: one of 30 s is in service since 0 s, three came, two slots, one ordered at 5 s."""
    plant = make_plant(TWO, make_requests((0, 30), (1, 4), (2, 30), (9, 30)))
    plant.run_to(5.0)
    plant.order(2)
    plant.run_to(10.0)
    assert Reader(Asked(), Faults()).line(plant) == {
        "now_s": 10.0, "workload": "loop/plant",
        "policy": {"min_replicas": 1, "max_replicas": 200, "slo": {"wait_s": 10.0}, "tick_s": 10.0},
        "replicas": {"desired": 2, "ready": 1, "starting": [{"since_s": 5.0, "name": "pod-1"}]},
        "pods": [{
            "name": "pod-0", "ready_since_s": 0.0, "waiting": 0, "running": 2, "requests_total": 1,
            "prompt_tokens_total": 1200, "generation_tokens_total": 30.0 * (10 + 4 + 5), "kv_cache_usage": 0.95,
        }],
        "gateway": {"queued": 1, "requests_total": 4},
    }  # fmt: skip


def test_faults_take_readings_away_for_as_long_as_they_last() -> None:
    plant, reader = make_plant(TWO, make_requests((0, 300))), Reader(
        Asked(), Faults(gateway_silent=(10.0, 20.0), pods_silent=(20.0, 30.0), no_budget=(20.0, 40.0))
    )  # fmt: skip
    lines = []
    for at_s in (0.0, 10.0, 20.0, 30.0, 40.0):
        plant.run_to(at_s)
        lines.append(reader.line(plant))
    assert [line["gateway"] is None for line in lines] == [False, True, False, False, False]
    assert ["running" in line["pods"][0] for line in lines] == [True, True, False, True, True]
    assert [line.get("limits") for line in lines] == [None, None, {"budget_replicas": 0}, {"budget_replicas": 0}, None]


def test_counters_that_are_reset_count_from_there_and_a_cache_may_read_full_whatever_runs() -> None:
    plant, reader = (
        make_plant(TWO, every(10.0, 5.0, 600.0)),
        Reader(Asked(), Faults(counters_reset_s=100.0, kv_full=True)),
    )
    plant.run_to(99.0)
    before = reader.line(plant)
    plant.run_to(100.0)
    reset = reader.line(plant)
    plant.run_to(120.0)
    after = reader.line(plant)
    assert [line["pods"][0]["requests_total"] for line in (before, reset, after)] == [10, 0, 2]
    assert [line["gateway"]["requests_total"] for line in (before, reset, after)] == [10, 0, 2]
    assert [line["pods"][0]["kv_cache_usage"] for line in (before, reset, after)] == [0.99, 0.99, 0.99]
    told = Reader(Asked(), Faults(untold_completions=True)).line(plant)["pods"][0]
    assert (told["requests_total"], told["running"]) == (None, 1)


def test_a_constant_count_scores_by_hand_arithmetic() -> None:
    """One of 10 s each 20 s on two replicas of two slots, 600 s: needed 30 x 10 / 2 = 150 replica-seconds of 1,200."""
    case = case_of(every(20.0, 10.0, 600.0), replace(TWO, opens_with=2))
    found = closed_loop(case, case.requests(0), 0, Constant(2))
    assert (found.requests, found.late, found.turns, found.most, found.mean_settled) == (30, 0.0, 0, 2, 2.0)
    assert (found.needed_h * 3600, found.ordered_h * 3600) == pytest.approx((150.0, 1200.0))
    assert found.cost == pytest.approx(8.0)


def test_a_policy_that_alternates_pays_for_every_start_it_cancels_and_turns_at_each_tick() -> None:
    """Of each 20 s a second replica starts for ten: 600 + 300 replica-seconds, none of them ever ready."""
    case = case_of(every(20.0, 10.0, 600.0))
    found = closed_loop(case, case.requests(0), 0, Alternates())
    assert found.ordered_h * 3600 == pytest.approx(900.0)
    assert (found.turns, found.most, found.mean_settled) == (59, 2, 1.5)


def test_who_waits_longer_than_the_objective_is_late_and_so_is_who_leaves() -> None:
    """Two slots, four of 30 s at once: two wait for 30 s. With a patience of 5 s they leave, and are late as well."""
    four = make_requests((100, 30), (100, 30), (100, 30), (100, 30))
    for fleet, gave_up in ((TWO, 0), (replace(TWO, patience_s=5.0), 2)):
        case = case_of(four, fleet)
        found = closed_loop(case, four, 0, Constant(1))
        assert (found.late, found.late_settled, found.gave_up) == (0.5, 0.0, gave_up), "all came in the first third"
    leaves = make_requests((300, 400), (300, 400), (595, 1))
    found = closed_loop(case_of(leaves, replace(TWO, patience_s=2.0)), leaves, 0, Constant(1))
    assert (found.late, found.late_settled) == (1 / 3, 1 / 3), "it left after 2 s, right before the end"
    patient = case_of(four, asked=Asked(wait_s=30.0))
    assert closed_loop(patient, four, 0, Constant(1)).late == 0.0, "a wait of the objective itself is in time"


def test_work_that_the_end_cuts_off_is_needed_until_then_only() -> None:
    case = case_of(make_requests((590, 100)))
    assert closed_loop(case, case.requests(0), 0, Constant(1)).needed_h * 3600 == pytest.approx(5.0)


def test_a_budget_of_nought_binds_whoever_decides() -> None:
    case = case_of(every(20.0, 10.0, 600.0), faults=Faults(no_budget=(200.0, 400.0)))
    found = closed_loop(case, case.requests(0), 0, Constant(1))
    assert found.ordered_h * 3600 == pytest.approx(600.0 - 200.0 + 10.0), "the one that drains serves for 10 s more"
    assert found.late >= 10 / 30


def test_the_best_constant_count_is_the_smallest_that_is_in_time() -> None:
    """Six of 60 s at once, and again each 60 s, take three replicas of two slots; with two some wait for 60 s."""
    six = make_requests(*((60.0 * i, 60.0) for i in range(9) for _ in range(6)))
    case = case_of(six)
    best = best_constant(case, six, 0)
    assert best is not None
    assert (best[0], best[1].late) == (3, 0.0)
    assert best_constant(replace(case, asked=Asked(most=2)), six, 0) is None


def test_turns_count_changes_of_direction_and_steps_of_one_way_are_none() -> None:
    assert [turns(orders) for orders in ([1, 2, 3, 3, 5], [1, 2, 1], [1, 2, 2, 1, 1, 2], [3])] == [0, 1, 2, 0]


def test_the_mean_that_stood_weighs_each_count_by_its_time() -> None:
    assert mean_from([(0.0, 4), (50.0, 1), (100.0, 3)], 75.0, 125.0) == 2.0


def test_recovery_ends_with_the_first_five_minutes_in_which_at_most_one_of_a_hundred_is_late() -> None:
    """One a second, late from 100 to 160 s, at 300 and at 600 s: from 158 s on 159, 160 and 300 are 3 of 301."""
    at_s = np.arange(0.0, 1000.0)
    late = ((at_s >= 100) & (at_s <= 160)) | np.isin(at_s, (300.0, 600.0))
    assert recovery(at_s, late, 100.0, 1000.0) == 58.0
    assert recovery(at_s, late, 100.0, 400.0) is None, "five minutes must be left to see it"
    assert recovery(at_s, np.zeros(1000, dtype=np.bool_), 100.0, 1000.0) == 0.0


def test_a_mean_of_seeds_with_an_unknown_one_is_unknown() -> None:
    assert (mean([1.0, 3.0]), mean([1.0, None]), mean([])) == (2.0, None, None)


def hpa_line(now_s: float, desired: int, *running: int | None, queued: int | None = 0) -> dict[str, Any]:
    return {
        "now_s": now_s, "policy": {"min_replicas": 1, "max_replicas": 30}, "replicas": {"desired": desired},
        "pods": [{"running": each, "waiting": 0} for each in running],
        "gateway": None if queued is None else {"queued": queued},
    }  # fmt: skip


def test_an_hpa_orders_what_is_in_the_system_over_its_target_and_comes_down_after_five_minutes() -> None:
    """24 in the system, 8 slots, target 50 %: six. Within a tenth of it nothing; up by four or twice; then down."""
    hpa = Hpa(8, 0.5, waiting=True)
    assert hpa.decide(hpa_line(0, 4, 8, 8, queued=8)) == 6
    assert hpa.decide(hpa_line(20, 6, 8, 8, 8, queued=2)) == 6, "26 of 24 are within a tenth"
    assert hpa.decide(hpa_line(40, 6, 8, 8, 8, queued=200)) == 12
    assert hpa.decide(hpa_line(60, 12, 8)) == 12
    assert hpa.decide(hpa_line(339, 12, 8)) == 12, "the highest of five minutes"
    assert hpa.decide(hpa_line(341, 12, 8)) == 2
    assert Hpa(8, 0.5, waiting=True).decide(hpa_line(0, 14, *14 * [0])) == 14, (
        "what it finds at first counts for five minutes"
    )
    assert Hpa(8, 0.5, waiting=True).decide(hpa_line(0, 2, 8, None)) == 2, "a silent pod: it holds"
    assert Hpa(8, 0.5, waiting=True).decide(hpa_line(0, 2, 8, 8, queued=None)) == 2, "a silent gateway as well"
    running = Hpa(8, 0.5, waiting=False)
    assert running.decide(hpa_line(0, 2, 8, 8, queued=None)) == 4, "who waits is nothing to it"


def child(words: str) -> list[str]:
    return [sys.executable, "-S", "-c", words]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("import sys; sys.exit('no room')", "no room"),
        ('print(\'{"error": "no"}\', flush=True); input()', 'answered no count: \'{"error": "no"}'),
        ("print('[1]', flush=True); input()", "answered no count"),
        ("print('{\"replicas\": 1.5}', flush=True); input()", "answered no count"),
        ("input(); print('{\"replicas\": 1}', flush=True); raise SystemExit(3)", "exit code 3"),
    ],
)
def test_a_child_that_ends_or_answers_no_count_ends_the_run_with_words(words: str, told: str) -> None:
    with pytest.raises(HeadroomError, match=re.escape(told)), Decide(child(words)) as decide:
        decide.decide({"now_s": 0.0})


def test_a_command_that_is_not_there_is_told() -> None:
    with pytest.raises(HeadroomError, match="not-there: cannot be started"), Decide(["not-there"]):
        pass


def test_the_real_decide_finds_what_a_load_needs_in_closed_loop() -> None:
    """One replica stands for a need of 3, starts take 30 s: four at least are ordered, far fewer than the 200 allowed,
    and after the first minutes nearly nobody waits."""
    load = Load(steady(3.0), 2.0)
    case = Case("short", load, Fleet(8, "gateway", 1, start_s=30.0), 600, onset_s=0.0)
    kept = StringIO()
    with Decide(keep=kept) as decide:
        found = closed_loop(case, case.requests(1), 1, decide)
    lines = kept.getvalue().splitlines()
    assert len(lines) == 2 * 60
    assert all('"verdict"' in answer for answer in lines[1::2])
    assert found.late_settled <= 0.01
    assert 4 <= found.most <= 40
    assert found.mean_settled >= 3.0
    assert found.recovery_s is not None


def test_the_plant_knows_nothing_of_the_core_or_the_simulator() -> None:
    """What it imports of the product are its errors and how files and progress are written; the rest is its own."""
    allowed = {"autoscaler.errors", "autoscaler.cli.output", "autoscaler.cli.progress", "loadtests.bench.machine"}
    found = set()
    for path in sorted((ROOT / "loadtests/loop").glob("*.py")):
        found |= set(re.findall(r"^(?:from|import) ((?:autoscaler|loadtests)[\w.]*)", path.read_text(), re.MULTILINE))
    assert {name for name in found if not name.startswith("loadtests.loop")} == allowed
