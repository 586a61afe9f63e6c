"""What Jobs used of GPUs, and the BatchQueues that preflight makes of it: taken by the model, with origins."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.api.batch_queue import BatchQueueSpec, read_batch_queue
from autoscaler.api.crd import BATCH_QUEUE, definition
from autoscaler.preflight.answers import Measured
from autoscaler.preflight.batch_queues import batch_queues
from autoscaler.preflight.document import document
from autoscaler.preflight.examine import Source, examine
from autoscaler.preflight.given import Given
from autoscaler.preflight.gpu_jobs import JobHistory
from autoscaler.preflight.history import Gap, Missing, Spread
from autoscaler.preflight.job_study import Queues, queue_study, queues_of
from autoscaler.preflight.job_words import batch_lines
from autoscaler.preflight.page import page
from tests.api.test_crd import dropped
from tests.preflight.builders import GONE, history, value, why
from tests.preflight.job_answers import DAY

SCHEMA = definition(BATCH_QUEUE)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
LASTED = Spread(np.array([600.0, 3600.0, 7200.0]), np.array([0.0, 80.0, 20.0]), "made by hand")
UNREAD = Missing(Gap.NOT_RECORDED, "no series of kube_pod_owner in the window")


def jobs(held: Any, waiting: Any = 0.0, *, namespace: str = "lab", days: float = 7, lasted: Any = LASTED) -> JobHistory:
    looks = round(days * DAY)
    gpus, pending = (np.array(np.broadcast_to(one, looks), dtype=np.float64) for one in (held, waiting))
    return JobHistory(namespace, 0.0, 300.0, gpus, pending, lasted)


def by_day(*levels: float) -> Any:
    """Each level for the same part of every day."""
    return np.array(levels)[(np.arange(7 * DAY) % DAY) * len(levels) // DAY]


def read(text: str) -> list[BatchQueueSpec]:
    specs = [msgspec.yaml.decode(part)["spec"] for part in text.split("---\n")]
    assert [list(dropped(spec, SCHEMA)) for spec in specs] == [[] for _ in specs]
    return [read_batch_queue(json.dumps(spec).encode()) for spec in specs]


def drafted(made: JobHistory) -> BatchQueueSpec:
    (spec,) = read(batch_queues(queues_of((made,)), command="x"))
    return spec


DRAFTS = {
    "always the same": (8.0, 0.0, 8, 11),
    "half of the day, and more for a tenth of it": (by_day(0, 0, 0, 0, 8, 8, 8, 8, 8, 40), 0.0, 8, 52),
    "at night only": (by_day(64, 0, 0), 0.0, 0, 84),
    "what waited beside it counts for the limit": (by_day(8, 8), by_day(0, 24), 8, 42),
    "held and waited for at different times are not added": (by_day(8, 0), by_day(0, 8), 8, 11),
    "nothing ran, all waits": (0.0, 4.0, 0, 6),
    "between two looks only": (0.0, 0.0, 0, None),
    "more than a quota can say": (2e6, 0.0, 1_048_576, 1_048_576),
}


@pytest.mark.parametrize(("held", "waiting", "guaranteed", "limit"), DRAFTS.values(), ids=DRAFTS.keys())
def test_the_usual_level_is_guaranteed_and_the_most_that_was_wanted_limits(held, waiting, guaranteed, limit) -> None:
    (quota,) = drafted(jobs(held, waiting)).quotas
    assert (quota.guaranteed, quota.limit) == (guaranteed, limit)
    assert (quota.lendable, quota.borrowable) == (None, None), "the defaults: nothing measures them"


def test_levels_are_shares_of_the_known_time_with_intervals_from_whole_days() -> None:
    night = np.array(by_day(0.0, 16.0, 16.0, 16.0))
    night[: 2 * DAY] = np.nan
    found = queue_study(jobs(night))
    assert (value(found.usual), value(found.high), value(found.most)) == (16.0, 16.0, 16.0)
    assert isinstance(found.usual, Measured)
    assert (found.usual.count, found.usual.window.unknown_s) == (5 * DAY, 2 * 86_400.0)
    assert (found.usual.low, found.usual.high) == (16.0, 16.0)
    assert value(found.lasted[0]) == pytest.approx(600 + 3000 * 50 / 80)


def test_zero_is_said_as_none() -> None:
    lines = batch_lines(queues_of((jobs(by_day(64, 0, 0)),)), 12)
    assert lines[1] == "  GPUs at once: none half of the time, 64 or more a twentieth of it, 64 at most."
    assert lines[3].startswith("  What waits: pending pods asked for none nineteen twentieths of the time; held and")


def test_the_terminal_tells_of_the_largest_and_counts_the_others() -> None:
    found = queues_of(tuple(jobs(float(gpus), namespace=f"n{gpus}") for gpus in (1, 9, 4)))
    lines = batch_lines(found, 2)
    heads = [line for line in lines if not line.startswith(" ")]
    assert heads[:2] == ["GPU Jobs of namespace n9", "GPU Jobs of namespace n4"]
    assert heads[2:] == ["and 1 more with GPU Jobs, in the files"]


def test_a_day_and_a_half_sets_no_bounds_and_says_so() -> None:
    made = jobs(8.0, days=1.5)
    (quota,) = drafted(made).quotas
    assert (quota.guaranteed, quota.limit) == (0, None)
    text = batch_queues(queues_of((made,)), command="x")
    assert "# guaranteed: cannot tell: 36 h of known history say nothing about the hours" in text
    assert "# limit: cannot tell: 36 h" in text


def test_where_nothing_was_known_there_is_no_number() -> None:
    made = jobs(np.nan, np.nan, lasted=GONE)
    found = queue_study(made)
    assert {why(one) for one in (found.usual, found.high, found.most, found.waiting, found.wanted)} == {"TOO_FEW"}
    (quota,) = drafted(made).quotas
    assert (quota.guaranteed, quota.limit) == (0, None)
    lines = batch_lines(queues_of((made,)), 12)
    assert [line.partition(": ")[2][:13] for line in lines[1:]] == ["not measured:"] * 3


def test_every_number_has_its_origin_above_it() -> None:
    text = batch_queues(queues_of((jobs(8.0, 2.0),)), command="headroom preflight --days 7")
    lines = text.splitlines()
    for field in ("namespaces:", "- shape: gpu", "guaranteed:", "limit:"):
        at = next(i for i, line in enumerate(lines) if line.strip().startswith(field))
        assert lines[at - 1].strip().startswith("# "), field
    flat = " ".join(text.replace("#", "").split())
    assert (
        "8 GPUs, held by running pods of Jobs at 50 % of the instants or more [2,016 instants; 7 days of record]"
        in flat
    )
    assert "1.3 times 10 GPUs, the most held and waited for by pods of Jobs at an instant" in flat
    assert "half of them 41.2 min or less, p90 90 min" in flat
    for unknown in ("cannot tell the shape", "lendable, borrowable: cannot tell", "how queues stand to each other"):
        assert unknown in flat
    assert max(len(line) for line in lines) <= 118


NOTHING = {
    "no source of Jobs": (None, "GPU Jobs: not measured: nothing that was read tells of them (needed: --prometheus"),
    "a metric is missing": (queues_of(UNREAD), f"not measured: {UNREAD.text} (needed: kube-state-metrics in this"),
    "no Job with GPUs": (queues_of(()), "GPU Jobs: none: no pod of a Job asked for nvidia.com/gpu or amd.com/gpu."),
    "none where it was looked": (
        queues_of((), ("team",)), "GPU Jobs: none in the namespaces that were looked at: no pod of a Job there asked",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("found", "words"), NOTHING.values(), ids=NOTHING.keys())
def test_without_jobs_the_file_says_why_and_holds_no_queue(found: Queues | None, words: str) -> None:
    text = batch_queues(found, command="x")
    assert all(line.startswith("#") for line in text.splitlines())
    assert words in " ".join(text.replace("#", "").split())


STUDIED = queue_study(jobs(8.0, days=1))


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=90))
def test_any_namespace_becomes_a_queue_that_is_taken_with_names_apart(name: str) -> None:
    made = tuple(replace(STUDIED, namespace=each) for each in (name, name + "!", "lab!"))
    text = batch_queues(Queues(made), command=name)
    read(text)
    names = [msgspec.yaml.decode(part)["metadata"]["name"] for part in text.split("---\n")]
    assert len(set(names)) == len(names)


def test_the_report_the_document_and_the_terminal_tell_of_it() -> None:
    made = (jobs(8.0, 2.0, namespace="<lab>"),)
    findings = examine([Source("made", [history()], 1, jobs=made)], Given(slots=8.0), command="x")
    assert findings.batch is not None
    markup = page(findings)
    assert '<h2 id="batch">Batch work</h2><h3>Namespace &lt;lab&gt;</h3>' in markup
    assert "<lab>" not in markup
    (told,) = json.loads(document(findings))["batch"]["queues"]
    assert (told["usual"]["value"], told["wanted"]["value"]) == (8.0, 10.0)
    lines = batch_lines(findings.batch, 12)
    assert lines[:2] == [
        "GPU Jobs of namespace <lab>",
        "  GPUs at once: 8 GPUs or more half of the time, 8 or more a twentieth of it, 8 at most.",
    ]


def test_a_trace_alone_says_nothing_of_jobs_on_the_page_and_a_refusal_does() -> None:
    for known, shown in ((None, False), (UNREAD, True)):
        findings = examine([Source("made", [history()], 1, jobs=known)], Given(slots=8.0), command="x")
        assert ("GPU Jobs: not measured: no series of kube_pod_owner" in page(findings)) == shown
        assert (json.loads(document(findings))["batch"] is not None) == shown
