"""The metrics page: what the catalogue holds comes back out of the parser that Prometheus' own client ships."""

from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from autoscaler.adapters.web.metrics import exposition
from autoscaler.record.metrics import CATALOGUE, families
from autoscaler.record.tally import BOUNDS_S, Tally
from tests.record.batches import TOLD
from tests.record.pool_statuses import short_pool
from tests.record.test_metrics import PROCESS, SHORT, full_tally
from tests.web.builders import estimate, quality, workload

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def page(accept: str = "", tally: Tally | None = None, name: str = "demo/chat") -> tuple[str, str]:
    past: dict[str, Any] = {"shadow": estimate(doubt="TOO_SHORT"), "quality": quality(drift="LOSING")}
    frames = {name: workload(workload=name, overload=SHORT, gpus_per_replica=2, **past)}
    counts = (tally or full_tally(name)).counts()
    text, content_type = exposition(families(frames, counts, PROCESS, 0.0, [short_pool()], batch=TOLD), accept)
    return text.decode(), content_type


def test_every_metric_of_the_catalogue_is_exposed_with_its_help_kind_and_labels() -> None:
    found = {family.name: family for family in parse_text(page()[0])}
    for metric in CATALOGUE:
        family = found[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind.value, metric.text)
        labels = {frozenset(sample.labels) - {"le"} for sample in family.samples}
        assert labels == {frozenset(metric.labels)}


def test_the_controllers_own_memory_and_time_are_beside_them() -> None:
    found = {family.name for family in parse_text(page()[0])}
    assert {"process_resident_memory_bytes", "process_cpu_seconds"} <= found
    assert {name for name in found if not name.startswith("process_")} == {
        metric.name.removesuffix("_total") for metric in CATALOGUE
    }


@pytest.mark.parametrize(
    ("accept", "kind"), [("", "text/plain"), ("text/html", "text/plain"), (OPENMETRICS, "application/openmetrics-text")]
)
def test_a_reader_gets_the_format_it_asks_for(accept: str, kind: str) -> None:
    text, content_type = page(accept)
    assert content_type.startswith(kind)
    assert text.endswith("# EOF\n") == (accept == OPENMETRICS)


def test_the_openmetrics_page_stands_its_strict_parser() -> None:
    found = {family.name for family in parse_openmetrics(page(OPENMETRICS)[0])}  # type: ignore[no-untyped-call]  # theirs
    assert "headroom_step_lag_seconds" in found


def test_durations_are_a_histogram_that_adds_up() -> None:
    tally = Tally()
    for lag_s in (0.01, 0.3, 0.3, 99.0):
        tally.decided("demo/chat", "HOLD", "STEADY", lag_s)
    samples = [s for f in parse_text(page(tally=tally)[0]) if f.name == "headroom_step_lag_seconds" for s in f.samples]
    buckets = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}
    assert [buckets[le] for le in ("0.05", "0.2", "0.4", "30.0", "+Inf")] == [1, 1, 3, 3, 4]
    assert len(buckets) == len(BOUNDS_S) + 1
    assert {s.name: s.value for s in samples if "le" not in s.labels} == {
        "headroom_step_lag_seconds_count": 4,
        "headroom_step_lag_seconds_sum": pytest.approx(99.61),
    }


def test_a_name_that_needs_escapes_does_not_break_the_page() -> None:
    name = 'demo/cha"t\\\n'
    samples = [s for f in parse_text(page(name=name)[0]) for s in f.samples if s.name == "headroom_load_rps"]
    assert [s.labels["workload"] for s in samples] == ['cha"t\\\n']
