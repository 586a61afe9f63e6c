"""The catalogue holds every reason and every figure that the core writes, and nothing that does not exist."""

import re

import pytest

from autoscaler.core.capacity.throughput import Term
from autoscaler.core.forecast.models import Model
from autoscaler.core.observe.freshness import SIGNALS
from autoscaler.core.reasons import Reason
from autoscaler.core.scale.uncalibrated import Because
from autoscaler.record.catalog import FIGURES, SENTENCES, WORDS
from tests.cli.lines import answers, busy, make_line
from tests.record.decisions import PER_REASON


def test_every_reason_has_a_sentence_and_an_example() -> None:
    assert set(SENTENCES) == set(Reason) == set(PER_REASON)


def test_no_two_reasons_read_the_same() -> None:
    assert len({pieces[0] for pieces in SENTENCES.values()}) == len(SENTENCES)


@pytest.mark.parametrize("reason", [pytest.param(reason, id=reason.name) for reason in Reason])
def test_a_sentence_speaks_only_of_figures_its_step_carries(reason: Reason) -> None:
    step, _ = PER_REASON[reason]
    first, *rest = SENTENCES[reason]
    known = {name for name, _ in step.evidence} | {"before", "after", "pace"}
    known |= {"ages", "oldest"} if any(name.endswith("_age_s") for name in known) else set()
    assert set(re.findall(r"\{(\w+)\}", "".join(rest))) <= known
    assert set(re.findall(r"\{(\w+)\}", first)) <= {"before", "after"}


def test_every_figure_is_the_evidence_of_some_step() -> None:
    carried = {name for step, _ in PER_REASON.values() for name, _ in step.evidence}
    assert {name for name in carried if not name.endswith("_age_s")} == set(FIGURES)


def test_every_model_every_limit_of_a_replica_and_every_cause_to_ask_for_no_more_has_its_words() -> None:
    kinds = {kind.name.lower() for kinds in (Model, Term) for kind in kinds}
    assert kinds | {"recurring"} | {because.value for because in Because} == set(WORDS)


WHERE_THERE_ARE_ANY = {"unread", "uncounted", "held_at_once"}
"""What a step carries only where there is something to say: counts that are not zero, and what an engine that nobody
can watch is taken to hold."""

STORIES = {
    "a queue before anything is calibrated": [busy(0), busy(5), busy(10, queued=40)],
    "a queue that stands": [busy(5.0 * i, queued=40.0 + 5 * i, desired=3) for i in range(20)],
    "load that goes": [busy(5.0 * i, queued=60.0 * (i < 20), desired=8, ready=8) for i in range(60)],
    "readings that end": [
        *(busy(5.0 * i) for i in range(30)),
        *({"now_s": 150 + 5.0 * i, "workload": "ns/chat"} for i in range(9)),
    ],
    "limits below what stands": [
        make_line(0, replicas={"desired": 9, "ready": 9}, limits={"quota_replicas": 8}),
        make_line(5, replicas={"desired": 9, "ready": 9}, limits={"budget_replicas": 7, "budget_words": "w"}),
        make_line(10, replicas={"desired": 9, "ready": 9}, policy={"max_replicas": 4}),
        make_line(15, replicas={"desired": 0, "ready": 0}, policy={"min_replicas": 3}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_core_writes_no_figure_that_the_catalogue_lacks(story: list[dict[str, object]]) -> None:
    for answer in answers(*story):
        for step in answer["trace"]:
            shown = {name for name, _ in PER_REASON[Reason[step["reason"]]][0].evidence}
            ages = {f"{signal}_age_s" for signal in SIGNALS}
            assert set(step["evidence"]) <= set(FIGURES) | ages
            spoken = set(re.findall(r"\{(\w+)\}", "".join(SENTENCES[Reason[step["reason"]]])))
            assert (spoken & shown) - WHERE_THERE_ARE_ANY <= set(step["evidence"])
