"""Growth within one cold start, and the WarmPools that preflight makes of it: taken by the model, with origins."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.api.crd import WARM_POOL, definition
from autoscaler.api.warm_pool import WarmPoolSpec, read_warm_pool
from autoscaler.api.warm_pool_parts import Backend
from autoscaler.preflight.answers import Measured
from autoscaler.preflight.document import document
from autoscaler.preflight.examine import Source, examine
from autoscaler.preflight.given import Given
from autoscaler.preflight.growth import Growth, Pools, growth
from autoscaler.preflight.history import Fact, WorkloadHistory
from autoscaler.preflight.page import page
from autoscaler.preflight.study import study
from autoscaler.preflight.warm_pools import warm_pools
from tests.api.test_crd import dropped
from tests.preflight.builders import DAY, GONE, HOUR, history, track, value, why

SCHEMA = definition(WARM_POOL)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
SLOTS = Given(slots=8.0)


def found(*made: WorkloadHistory, given: Given = SLOTS) -> Pools:
    grown = Growth()
    for each in made:
        grown.add(*study(each, given))
    return grown.finish()


def surges(days: int, *, at_hour: int, low: float = 16.0, high: float = 80.0) -> Any:
    """A quarter of an hour at `high` in one hour of each day, at once and over at once."""
    at = np.arange(days * DAY) % DAY
    return track(np.where((at >= at_hour * HOUR) & (at < at_hour * HOUR + 30), high, low))


def read(text: str) -> list[WarmPoolSpec]:
    specs = [msgspec.yaml.decode(part)["spec"] for part in text.split("---\n")]
    assert [list(dropped(spec, SCHEMA)) for spec in specs] == [[] for _ in specs]
    return [read_warm_pool(json.dumps(spec).encode()) for spec in specs]


def test_growth_is_how_far_a_step_is_exceeded_before_capacity_ordered_then_lands() -> None:
    grown = growth(np.array([1.0, 2.0, 5.0, 1.0, 1.0, np.nan, 4.0]), 2)
    assert grown[:5].tolist() == [4.0, 3.0, 0.0, 0.0, 3.0]
    assert np.isnan(grown[5:]).all(), "what follows the end, and what a hole hides, is not known"


def test_a_daily_surge_is_the_hour_that_grows_most_and_the_calmest_hour_has_none() -> None:
    (pool,) = found(history(7 * DAY, running=surges(7, at_hour=9))).pools
    assert (pool.gpus, pool.workloads, value(pool.lead)) == (2, ("prod/chat",), 180.0)
    assert (value(pool.quiet), value(pool.busy), value(pool.most)) == (0.0, 8.0, 8.0), "from 2 replicas to 10"
    assert isinstance(pool.quiet, Measured)
    assert (pool.quiet.low, pool.quiet.high) == (0.0, 0.0)


def test_surges_at_different_hours_share_slots_and_at_one_hour_they_add_up() -> None:
    apart = [history(7 * DAY, workload=f"prod/{at}", running=surges(7, at_hour=at)) for at in (3, 9)]
    together = [history(7 * DAY, workload=f"prod/{at}", running=surges(7, at_hour=9)) for at in (3, 9)]
    assert value(found(*apart).pools[0].most) == 8.0
    assert value(found(*together).pools[0].most) == 16.0


def test_shapes_and_sizes_have_pools_of_their_own_and_the_longest_start_counts() -> None:
    pools = found(
        history(3 * DAY, workload="a/a", facts={Fact.SHAPE: "H100 SXM"}, cold_start=GONE),
        history(3 * DAY, workload="a/b", facts={Fact.SHAPE: "H100 SXM"}),
        history(3 * DAY, workload="a/c", facts={Fact.SHAPE: "H100 SXM"}, gpus_per_replica=8.0),
        given=Given(slots=8.0, cold_start_s=400.0),
    ).pools
    assert [(pool.shape, pool.gpus, pool.workloads) for pool in pools] == [
        ("H100 SXM", 2, ("a/a", "a/b")), ("H100 SXM", 8, ("a/c",)),
    ]  # fmt: skip
    assert [value(pool.lead) for pool in pools] == [400.0, 180.0]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"cold_start": GONE}, "no cold start was recorded and none was given"),
        ({"gpus_per_replica": None}, "how many GPUs a replica holds is not known"),
        ({"gpus_per_replica": 0.5}, "a replica of 0.5 GPUs is no slot"),
        ({"running": GONE, "duration": GONE}, "requests in flight"),
        ({"start_s": 1e9}, "no moment in common"),
    ],
    ids=["no cold start", "no GPUs", "half a GPU", "no load", "another time"],
)
def test_a_workload_that_cannot_be_added_is_left_out_and_named_with_its_reason(
    made: dict[str, Any], words: str
) -> None:
    odd = history(3 * DAY, workload="prod/odd", **{key: made[key] for key in made if key != "start_s"})
    if "start_s" in made:
        odd = history(3 * DAY, workload="prod/odd")
        object.__setattr__(odd, "start_s", made["start_s"])
    pools = found(history(3 * DAY), odd)
    assert [pool.workloads for pool in pools.pools] == [("prod/chat",)]
    assert words in pools.left_out["prod/odd"]
    assert f"In no pool: prod/odd: {pools.left_out['prod/odd'][:20]}" in warm_pools(pools, command="x")


def test_a_pool_only_decides_and_says_where_each_number_comes_from() -> None:
    text = warm_pools(found(history(7 * DAY, running=surges(7, at_hour=9))), command="headroom preflight --days 7")
    (spec,) = read(text)
    assert (spec.backend, spec.slot.count, spec.lead_prior_s) == (Backend.OBSERVE, 2, 180.0)
    assert (spec.min_slots, spec.max_slots) == (0, 11), "1.3 times the largest growth of 8"
    lines = text.splitlines()
    for field in ("backend:", "minSlots:", "maxSlots:", "leadPriorS:", "count:", "- name: gpu", "- name: chat"):
        at = next(i for i, line in enumerate(lines) if line.strip().startswith(field))
        assert lines[at - 1].strip().startswith("# "), field
    flat = " ".join(text.replace("#", "").split())
    assert "1.3 times 8 replicas, the largest growth of all replicas together within one cold start" in flat
    assert "in the hour that grows most 8 replicas" in flat
    assert "all of it comes at once 8 warm slots serve it, and it wants 22 for its queue to be gone within 1.6" in flat
    assert "cannot tell the shape: it is not recorded" in flat
    assert "cannot tell the images: they are not recorded" in flat
    assert max(len(line) for line in lines) <= 118


def test_a_day_and_a_half_does_not_tell_hours_apart_and_sets_no_bounds() -> None:
    pools = found(history(36 * HOUR))
    assert why(pools.pools[0].quiet) == "TOO_SHORT"
    (spec,) = read(warm_pools(pools, command="x"))
    assert (spec.min_slots, spec.max_slots) == (0, 10), "the defaults"
    assert "# minSlots: cannot tell: 36 h of known history" in warm_pools(pools, command="x")


def test_where_nothing_can_be_told_the_file_says_so_and_holds_no_pool() -> None:
    text = warm_pools(found(history(cold_start=GONE)), command="x")
    assert all(line.startswith("#") for line in text.splitlines())
    assert "Cannot tell what to keep warm" in text


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_shape_and_name_become_pools_that_are_taken_with_names_apart(name: str, shape: str) -> None:
    made = [history(HOUR, workload=f"a/{name}", facts={Fact.SHAPE: each}) for each in (shape, shape + "!", "H!")]
    text = warm_pools(found(*made, given=Given(8.0, 8.0, 8.0)), command=name)
    read(text)
    names = [msgspec.yaml.decode(part)["metadata"]["name"] for part in text.split("---\n")]
    assert len(set(names)) == len(names)


def test_the_report_and_the_document_tell_of_it() -> None:
    made = [history(7 * DAY, running=surges(7, at_hour=9), facts={Fact.SHAPE: "<h100>"})]
    findings = examine([Source("made", made, 1)], SLOTS, command="x")
    markup = page(findings)
    assert "What to keep warm" in markup
    assert "&lt;h100&gt;, 2 each: hour that grows most" in markup
    assert "<h100>" not in markup
    assert json.loads(document(findings))["warm"]["pools"][0]["most"]["value"] == 8.0
