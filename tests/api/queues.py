"""Specs of BatchQueues with what becomes of them, for our own reader and for a real API server alike."""

from typing import Any, Final

QUOTA: Final[dict[str, Any]] = {"shape": "h100", "guaranteed": 16, "limit": 64}


def spec(**fields: Any) -> dict[str, Any]:
    """A sound spec with `fields`, in camelCase; None leaves a field out."""
    given = {"quotas": [QUOTA], "namespaces": ["team-a"], **fields}
    return {name: value for name, value in given.items() if value is not None}


SOUND: Final[dict[str, dict[str, Any]]] = {
    "nothing at all": {},
    "a quota and a namespace": spec(),
    "every field": spec(
        parent="research", weight=2.5, order="strict", minRuntimeS=600,
        quotas=[{**QUOTA, "lendable": 8, "borrowable": 32}, {"shape": "a100-quarter", "guaranteed": 4}],
        preemption={"reclaims": False, "preemptsOwn": False, "graceS": 30},
        tiers=[{"priorityClass": "batch-urgent", "importance": 4}, {"priorityClass": "batch-low", "importance": 0.5}],
    ),
    "the rest only": spec(weight=0.001, quotas=[]),
    "nothing but what it borrows": spec(quotas=[{"shape": "h100", "limit": 8}]),
}  # fmt: skip

FAULTY: Final[dict[str, tuple[dict[str, Any], str]]] = {
    # name: (spec, what our reader says)
    "a weight of 0": (spec(weight=0), "spec.weight: 0 is out of range; it must be a number, 0.001..1000"),
    "a negative weight": (spec(weight=-1), "spec.weight: -1 is out of range; it must be a number, 0.001..1000"),
    "a limit below the guarantee": (
        spec(quotas=[{**QUOTA, "limit": 8}]), "spec.quotas[0]: limit 8 is below guaranteed 16; raise it, or promise"),
    "a negative guarantee": (
        spec(quotas=[{**QUOTA, "guaranteed": -1}]), "spec.quotas[0].guaranteed: -1 is out of range; it must"),
    "a limit that overflows": (
        spec(quotas=[{**QUOTA, "limit": 2**63}]), "must be a whole number, 0..1048576"),
    "half a GPU": (spec(quotas=[{**QUOTA, "guaranteed": 1.5}]), "spec.quotas[0].guaranteed: 1.5 is out of range"),
    "a guarantee in words": (spec(quotas=[{**QUOTA, "guaranteed": "all"}]), "'all' is out of range"),
    "a shape twice": (spec(quotas=[QUOTA, QUOTA]), "spec: quotas: 'h100' stands twice; give each shape once"),
    "a quota without shape": (spec(quotas=[{"guaranteed": 1}]), "spec.quotas[0].shape: missing; it must be the name"),
    "a shape in capitals": (spec(quotas=[{**QUOTA, "shape": "H100"}]), "spec.quotas[0].shape: 'H100' is out of range"),
    "a namespace twice": (spec(namespaces=["a", "a"]), "spec: namespaces: 'a' stands twice; give each namespace once"),
    "a wildcard for namespaces": (spec(namespaces=["*"]), "spec.namespaces[0]: '*' is out of range"),
    "a tier twice": (
        spec(tiers=[{"priorityClass": "x"}, {"priorityClass": "x"}]), "spec: tiers: 'x' stands twice; give each"),
    "an importance of 0": (
        spec(tiers=[{"priorityClass": "x", "importance": 0}]), "spec.tiers[0].importance: 0 is out of range"),
    "an unknown order": (spec(order="fifo"), "spec.order: 'fifo' is out of range; it must be one of fair, strict"),
    "a grace that never ends": (
        spec(preemption={"graceS": 1e9}), "spec.preemption.graceS: 1000000000.0 is out of range"),
    "a negative runtime": (spec(minRuntimeS=-1), "spec.minRuntimeS: -1 is out of range; it must be a number"),
    "two parents": (spec(parent=["a", "b"]), "spec.parent: a list is out of range; it must be the name"),
    "a parent in capitals": (spec(parent="Research"), "spec.parent: 'Research' is out of range"),
    "33 shapes": (
        spec(quotas=[{"shape": f"s{at}"} for at in range(33)]), "spec.quotas: a list is out of range; it must be"),
    "257 namespaces": (spec(namespaces=[f"n{at}" for at in range(257)]), "spec.namespaces: a list is out of range"),
    "an unknown field": (spec(quota=[]), "spec.quota: unknown field; known are parent, weight, quotas"),
}  # fmt: skip
