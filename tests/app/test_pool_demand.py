"""What workloads want of a pool: by model, in slots, in the count that comes true, with who waits and for how long."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import msgspec
import pytest

from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.pods import PodSpec, ResourceClaim
from autoscaler.adapters.kube.scaling import Target, TargetMeta, TargetSpec, Template
from autoscaler.api.claims import Claim, TargetRef
from autoscaler.api.modes import Mode
from autoscaler.app.pool_demand import Demands, forecast_replicas
from autoscaler.app.room import Room
from autoscaler.core.pool.params import SlotForm
from autoscaler.core.types import ReplicaReading, StartingReplica
from autoscaler.record.stream import WorkloadFrame
from tests.app.scene import ENGINE, KEY, claim
from tests.web.builders import workload

FORM = SlotForm(count=1)
CLASSES = MappingProxyType({"": 0, "urgent": 1000, "low": 5})


class Followed:
    """A followed target of two replicas whose pods hold two GPUs each."""

    def __init__(self, **labels: str) -> None:
        self.labels = labels
        self.spec = PodSpec(containers=(ENGINE,))
        self.starting: tuple[StartingReplica, ...] = ()
        self.replicas: int | None = 2

    def target(self, ref: TargetRef) -> Target:
        return Target(TargetMeta("chat", "prod", labels=self.labels), TargetSpec(self.replicas, Template(self.spec)))

    def reading(self, ref: TargetRef, desired: int) -> ReplicaReading:
        return ReplicaReading(desired, desired - len(self.starting), self.starting)


def demands(cluster: Followed, mode: Mode = Mode.ACTIVE, frame: WorkloadFrame | None = None) -> Demands:
    followed = cast("Cluster", cluster)
    claims: dict[str, Claim] = {KEY: claim()}
    return Demands(
        claims=lambda: claims, mode=lambda _: mode, frame=lambda _: frame, cluster=followed,
        room=Room(followed, ("nvidia.com/gpu",)),
    )  # fmt: skip


def decided(after: int, **fields: Any) -> WorkloadFrame:
    made = workload(workload=KEY, **fields)
    return replace(made, decision=replace(made.decision, after=after))


def test_a_workload_belongs_to_the_model_of_its_label_or_of_its_own_name() -> None:
    assert [d.model for d in demands(Followed()).of(("chat",), FORM)] == ["chat"]
    labelled = Followed(**{"headroom.dev/model": "llama"})
    assert demands(labelled).of(("chat",), FORM) == ()
    assert [d.workload for d in demands(labelled).of(("llama",), FORM)] == [KEY]


def test_a_replica_is_as_many_slots_as_its_gpus_ask_for() -> None:
    (one,) = demands(Followed()).of(("chat",), FORM)
    assert one.slots_per_replica == 2
    (two,) = demands(Followed()).of(("chat",), SlotForm(count=4))
    assert two.slots_per_replica == 1


COUNTS = {
    "what was decided on": (Mode.ACTIVE, 5, 2, 5.0),
    "what stands while it shrinks": (Mode.ACTIVE, 1, 4, 4.0),
    "what stands in shadow": (Mode.SHADOW, 9, 2, 2.0),
    "what stands while paused": (Mode.PAUSED, 9, 2, 2.0),
    "not known before a decision": (Mode.ACTIVE, None, 2, None),
    "not known in shadow without a count": (Mode.SHADOW, 9, None, None),
}


@pytest.mark.parametrize(("mode", "after", "standing", "wanted"), COUNTS.values(), ids=COUNTS)
def test_demand_is_the_count_that_comes_true(
    mode: Mode, after: int | None, standing: int | None, wanted: float | None
) -> None:
    cluster = Followed()
    cluster.replicas = standing
    (found,) = demands(cluster, mode, None if after is None else decided(after)).of(("chat",), FORM)
    assert found.replicas == wanted


def test_who_waits_for_a_node_is_told_and_who_only_starts_is_not() -> None:
    cluster = Followed()
    cluster.starting = (StartingReplica(0.0, "a", unschedulable=True), StartingReplica(0.0, "b"))
    (found,) = demands(cluster, frame=decided(2)).of(("chat",), FORM)
    assert found.waiting == 1


def test_a_forecast_is_in_replicas_within_the_maximum_and_unknown_without_a_capacity() -> None:
    assert forecast_replicas(decided(2, forecast_rps=9.0, replica_rps=2.0)) == 5.0
    assert forecast_replicas(decided(2, forecast_rps=900.0, replica_rps=2.0, max_replicas=12)) == 12.0
    assert forecast_replicas(decided(2, forecast_rps=9.0, replica_rps=None)) is None
    assert forecast_replicas(decided(2, forecast_rps=None)) is None


def test_devices_by_resource_claim_are_seen() -> None:
    cluster = Followed()
    assert not demands(cluster).of(("chat",), FORM)[0].uses_claims
    cluster.spec = msgspec.structs.replace(cluster.spec, resource_claims=(ResourceClaim("gpu"),))
    assert demands(cluster).of(("chat",), FORM)[0].uses_claims


def test_the_priority_that_slots_give_way_to_is_the_lowest_of_the_pools_own() -> None:
    cluster = Followed()
    cluster.spec = msgspec.structs.replace(cluster.spec, priority_class_name="urgent")
    assert demands(cluster).priority(("chat",), CLASSES.get) == 1000
    assert demands(cluster).priority(("other",), CLASSES.get) == 0, "without workloads the default counts"
    assert demands(Followed()).priority(("chat",), lambda _: None) == 0


def test_whose_pods_take_nobodys_place_is_told() -> None:
    cluster = Followed()
    cluster.spec = msgspec.structs.replace(cluster.spec, priority_class_name="meek")
    (found,) = demands(cluster).of(("chat",), FORM, lambda name: name != "meek")
    (other,) = demands(Followed()).of(("chat",), FORM, lambda name: name != "meek")
    assert (found.preempts, other.preempts) == (False, True)
