"""Public traces through preflight: figures that hold whatever the engine, and one answer that cannot be told."""

from pathlib import Path
from typing import Any

import pytest

from autoscaler.preflight.bands import Bands
from autoscaler.preflight.bursts import Bursts
from autoscaler.preflight.document import Findings
from autoscaler.preflight.examine import Source, examine
from autoscaler.preflight.given import Given
from autoscaler.preflight.study import WorkloadStudy
from autoscaler.preflight.sustained import ByHour
from autoscaler.preflight.traces import histories
from autoscaler.preflight.words import workload_sentences
from autoscaler.sim.serving.profile import DEFAULT_PROFILE
from tests.preflight.builders import value, why

pytestmark = [pytest.mark.slow, pytest.mark.data, pytest.mark.needs("shared-data")]


def examined(*traces: str, given: Given, **options: Any) -> Findings:
    sources = []
    for trace in traces:
        found = list(histories(trace, **options))
        sources.append(Source(trace, found, len(found)))
    return examine(sources, given, command="headroom preflight")


def bands(study: WorkloadStudy) -> Bands:
    assert isinstance(study.concurrency, Bands)
    return study.concurrency


def told(study: WorkloadStudy) -> dict[str, bool]:
    return {sentence.question: sentence.told for sentence in workload_sentences(study)}


def test_a_chat_service_has_a_floor_and_a_code_service_has_none(shared_data: Path) -> None:
    conv, code = examined(
        f"{shared_data}/inference/azure2023_conv.csv.gz", f"{shared_data}/inference/azure2023_code_h1.csv.gz",
        given=Given(cold_start_s=60.0), profile=DEFAULT_PROFILE, step_s=5.0,
    ).workloads  # fmt: skip
    assert 45 < value(bands(conv).floor) < 58
    assert value(bands(code).floor) < 0.5 < value(bands(code).usual)
    assert why(bands(conv).hours) == "TOO_SHORT", "an hour knows no hours of the day"
    assert isinstance(code.bursts, Bursts)
    assert value(code.bursts.over_before) > 0.6, "surges of seconds"
    assert told(code) == {"floor": True, "bursts": True, "residency": False, "waiting": False}
    assert why(code.residency.computing) == "NOT_RECORDED"


def test_a_week_of_a_small_model_has_a_night_and_a_large_one_gains_from_sharing(shared_data: Path) -> None:
    week = f"{shared_data}/inference/servegen_rates_week1.csv.gz#model={{}}&day=0&days=7&rate=3"
    found = examined(
        week.format("m-small"), week.format("m-large"),
        given=Given(cold_start_s=180.0, slots=64.0, gpus_per_replica=4.0), profile=DEFAULT_PROFILE,
    )  # fmt: skip
    small = next(study for study in found.workloads if study.workload == "m-small")
    hours = bands(small).hours
    assert isinstance(hours, ByHour)
    assert hours.usual.max() > 1.3 * hours.usual.min(), "the clearest day of the three"
    assert isinstance(small.bursts, Bursts)
    assert value(small.bursts.over_before) > 0.9, "most surges are over within three minutes"
    assert value(small.bursts.excess_before) < 1.0, "and do not hold all of the excess"
    assert found.cluster.unit == "GPUs"
    assert 0.1 < value(found.cluster.ceiling.gain) < 0.5


def test_rare_functions_have_no_floor_and_the_sum_of_all_has_one(shared_data: Path) -> None:
    found = examined(
        f"{shared_data}/inference/azurefunc2019_dev_minutes.csv.gz", given=Given(cold_start_s=120.0, slots=4.0)
    )
    assert len(found.workloads) == 267
    floors = [study.rate.floor for study in found.workloads if isinstance(study.rate, Bands)]
    idle = sum(value(floor) == 0.0 for floor in floors)
    assert idle > 180, "two in three functions are not called in one of twenty windows"
    joint = found.cluster.bands
    assert isinstance(joint, Bands)
    assert value(joint.floor) > 50.0
    assert why(joint.hours) == "TOO_SHORT"
