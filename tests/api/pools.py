"""Specs of WarmPools with what becomes of them, for our own reader and for a real API server alike."""

from typing import Any, Final

from autoscaler.api.shapes import Shape
from autoscaler.core.pool.params import CapacityType, Sharing

SHAPES: Final = {
    "h100": Shape(sku="h100"),
    "h100-spot": Shape(sku="h100", capacity_type=CapacityType.SPOT),
    "h100-mig": Shape(sku="h100", resource="nvidia.com/mig-3g.40gb", sharing=Sharing.MIG, parts=2),
}
TIER: Final[dict[str, Any]] = {"name": "first", "shape": "h100", "nodePoolRef": "gpu-h100"}
SPOT: Final[dict[str, Any]] = {"name": "spot", "shape": "h100-spot", "nodePoolRef": "gpu-spot"}
MODEL: Final[dict[str, Any]] = {"name": "chat", "image": "registry.example.com/vllm:v1"}
CLASS: Final[dict[str, Any]] = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
MADE: Final[dict[str, Any]] = {"name": "first", "shape": "h100", "nodeClassRef": CLASS, "instanceTypes": ["a", "b"]}


def spec(**fields: Any) -> dict[str, Any]:
    """A sound spec with `fields`, in camelCase; None leaves a field out."""
    given = {"tiers": [TIER], "models": [MODEL], **fields}
    return {name: value for name, value in given.items() if value is not None}


def event(**fields: Any) -> dict[str, Any]:
    """A spec with one known event, sound but for `fields`; None leaves a field out."""
    window = {"name": "day", "schedule": "30 7 * * MON-FRI", "durationS": 3600, "slots": 4, **fields}
    return spec(calendar=[{name: value for name, value in window.items() if value is not None}])


SOUND: Final[dict[str, dict[str, Any]]] = {
    "a tier and a model alone": spec(),
    "every field": spec(
        backend="observe", tiers=[{**TIER, "zones": ["a", "b"], "limits": {"gpus": 64, "nodes": 8}}, SPOT],
        slot={"count": 8, "minDriver": "580.65", "minCuda": "12.8"},
        models=[{**MODEL, "weights": "hf://example/chat"}], cache={"claim": "weights", "mountPath": "/weights"},
        minSlots=1, maxSlots=20, maxGpus=160, zoneMinima=[{"zone": "a", "slots": 1}], spotMaxRatio=0.25,
        calendar=event()["calendar"], hitRatio=0.95, idleHotS=60, slotLifeS=1800, nodeLifeS=86_400, maxStarting=4,
        leadPriorS=300, handOver="Choose", loan={"enabled": True, "keepSlots": 2, "reclaimS": 30},
        gangs={"maxGpus": 64, "timeoutS": 600},
    ),
    "a managed pool": spec(managed=True, tiers=[{**MADE, "weight": 50}]),
    "spot alone": spec(tiers=[SPOT], spotMaxRatio=1),
    "slices": spec(tiers=[{**TIER, "shape": "h100-mig"}]),
    "a single window": event(
        schedule=None, durationS=None, **{"from": "2026-11-28T08:00:00+01:00", "to": "2026-11-28T20:00:00+01:00"}),
    "a ceiling": event(slots=None, ceiling=0),
}  # fmt: skip

FAULTY: Final[dict[str, tuple[dict[str, Any], str]]] = {
    # name: (spec, what our reader or the compilation says)
    "no tier": (spec(tiers=None), "spec.tiers: missing; give at least one"),
    "no model": (spec(models=None), "spec.models: missing; give at least one model"),
    "an empty list of models": (
        spec(models=[]), "spec.models: a list is out of range; it must be a list of models, 1..16 of them"),
    "a maximum of nothing": (spec(maxSlots=0), "spec.maxSlots: 0 is out of range; it must be a whole number, 1..10000"),
    "a minimum above the maximum": (
        spec(minSlots=11), "spec.minSlots: 11 is above maxSlots 10; lower the minimum or raise the maximum"),
    "zones above the maximum": (
        spec(zoneMinima=[{"zone": "a", "slots": 6}, {"zone": "b", "slots": 6}]),
        "spec.zoneMinima: 12 in all is above maxSlots 10; lower a minimum or raise the maximum"),
    "zones above the budget": (
        spec(maxGpus=8, slot={"count": 4}, zoneMinima=[{"zone": "a", "slots": 3}]),
        "spec.zoneMinima: 12 GPUs in all are above maxGpus 8; lower a minimum or raise the budget"),
    "a zone of no tier": (
        spec(tiers=[{**TIER, "zones": ["a"]}], zoneMinima=[{"zone": "b", "slots": 1}]),
        "spec.zoneMinima: 'b' is in no tier's zones; name a zone of a tier"),
    "a minimum above the budget": (
        spec(minSlots=4, slot={"count": 4}, maxGpus=8),
        "spec.maxGpus: 8 is less than the 16 of minSlots 4; raise the budget or lower the minimum"),
    "a tier too small for a slot": (
        spec(slot={"count": 4}, tiers=[{**TIER, "limits": {"gpus": 2}}]),
        "spec.tiers: 'first' may hold 2 GPUs and one slot needs 4; raise its limit or leave the tier out"),
    "spot alone without its share": (
        spec(tiers=[SPOT]), "spec.spotMaxRatio: 0 though every tier is spot; set it to 1 or add an on-demand tier"),
    "a shape that nobody defined": (
        spec(tiers=[{**TIER, "shape": "b200"}]), "spec.tiers[0].shape: 'b200' is not among the administrator's shapes"),
    "shapes that are divided otherwise": (
        spec(tiers=[TIER, {**SPOT, "shape": "h100-mig"}]),
        "spec.tiers[1].shape: 'h100-mig' divides GPUs otherwise than 'h100'"),
    "tiers of one NodePool": (
        spec(tiers=[TIER, {**SPOT, "nodePoolRef": "gpu-h100"}]), "spec.tiers: 'gpu-h100' stands in two tiers"),
    "tiers of one name": (spec(tiers=[TIER, {**SPOT, "name": "first"}]), "spec: tiers: 'first' stands twice"),
    "a managed pool that refers to NodePools": (
        spec(managed=True), "spec: tiers[0].nodePoolRef is given though managed is true"),
    "a managed pool without a NodeClass": (
        spec(managed=True, tiers=[{"name": "first", "shape": "h100"}]),
        "spec: tiers[0].nodeClassRef is missing though managed is true"),
    "no NodePool": (
        spec(tiers=[{"name": "first", "shape": "h100"}]),
        "spec: tiers[0].nodePoolRef is missing though managed is false"),
    "weights against the order": (
        spec(managed=True, tiers=[{**MADE, "weight": 1}, {**MADE, "name": "b", "weight": 2}]),
        "spec: tiers: a later tier weighs more than an earlier one; order them by weight"),
    "weights without a cache": (
        spec(models=[{**MODEL, "weights": "hf://example/chat"}]), "spec: models have weights and there is no cache"),
    "two caches": (
        spec(cache={"hostPath": "/a", "claim": "b"}), "spec.cache: give one of hostPath and claim, and not both"),
    "a cache in the kubelet's folder": (
        spec(cache={"hostPath": "/var/lib/kubelet/pods"}), "spec.cache: hostPath is a folder of the node's own; give"),
    "an image in capitals": (spec(models=[{**MODEL, "image": "VLLM"}]), "spec.models[0].image: 'VLLM' is out of range"),
    "a source without a scheme": (
        spec(models=[{**MODEL, "weights": "/models"}]), "must be a source such as hf://org/model"),
    "a driver in words": (spec(slot={"minDriver": "new"}), "must be a version such as 580.65"),
    "a schedule of four fields": (event(schedule="30 7 * *  "), "has 4 fields; give minute, hour, day of month"),
    "an hour of 24": (event(schedule="30 24 * * *"), "hour '24' is out of range; give 0..23"),
    "a schedule of every minute": (event(schedule="* * * * *"), "begins more than 24 times a day"),
    "a time zone that is none": (
        event(timeZone="Europe/Atlantis"), "'Europe/Atlantis' is no time zone that is known here; give one such as"),
    "a schedule without a duration": (event(durationS=None), "give schedule and durationS, or from and to"),
    "a window that ends before it begins": (
        event(schedule=None, durationS=None, **{"from": "2026-11-28T08:00:00Z", "to": "2026-11-28T07:00:00Z"}),
        "from is not before to; end the window later"),
    "an event that asks for nothing": (event(slots=None), "no slots and no ceiling; give one of them"),
    "a floor above the ceiling": (event(ceiling=3), "slots 4 are above ceiling 3; lower the slots"),
    "an unknown field": (spec(replicas=3), "spec.replicas: unknown field"),
}  # fmt: skip
