"""Small clusters and gangs, with defaults."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.gangs import Form, Gang, PodSet, Topology
from autoscaler.core.batch.ledger import Ledger
from autoscaler.core.batch.params import BatchParams, QueueSpec, Quota, Shape
from autoscaler.core.batch.placement import Placer, Spot

H100 = "h100"
LEVELS = ("rack", "island")


def node(name: str, units: int = 8, rack: str = "r0", island: str = "i0", **more: Any) -> NodeSeen:
    return NodeSeen(name, more.pop("shape", H100), units, (rack, island), **more)


def racks(count: int, per_rack: int, units: int = 8) -> list[NodeSeen]:
    """Nodes n0, n1, … in racks r0, r1, …, one island each."""
    return [node(f"n{at}", units, f"r{at // per_rack}") for at in range(count * per_rack)]


def ledger_of(nodes: Sequence[NodeSeen], shapes: Sequence[str] = (H100,)) -> Ledger:
    ledger = Ledger(shapes, len(LEVELS))
    ledger.see(nodes, ())
    return ledger


def form(
    pods: int = 1, units: int = 1, shape: str = H100, required: str | None = None, preferred: str | None = None,
    **more: Any,
) -> Form:  # fmt: skip
    return Form((PodSet(pods, units, shape, **more),), Topology(required, preferred))


def gang(name: str, queue: str = "a", pods: int = 1, units: int = 1, created_s: float = 0.0, **more: Any) -> Gang:
    asked = {key: more.pop(key) for key in ("shape", "required", "preferred", "cpu", "memory_gib") if key in more}
    return Gang(name, queue, more.pop("form", None) or form(pods, units, **asked), created_s, **more)


def placed(ledger: Ledger, wanted: Form, name: str | None = None) -> tuple[Spot, ...] | None:
    """Take room for a form and book it."""
    placer = Placer(ledger.estate, LEVELS)
    spots = placer.take(placer.ask(wanted))
    if spots is not None and name is not None:
        ledger.book(name, spots)
    return spots


def where(ledger: Ledger, spots: Iterable[Spot]) -> dict[str, int]:
    """Units by node name."""
    out: dict[str, int] = {}
    for spot in spots:
        name = ledger.estate.nodes[spot.node].name
        out[name] = out.get(name, 0) + spot.units
    return out


def queue(
    name: str, guaranteed: int = 0, parent: str | None = None, quota: Mapping[str, int] | None = None, **more: Any
) -> QueueSpec:
    quotas = {H100: Quota(guaranteed, **(quota or {}))} if guaranteed or quota else {}
    return QueueSpec(name, parent, quotas=quotas, grace_s=more.pop("grace_s", 0.0), **more)


def params(*queues: QueueSpec, **more: Any) -> BatchParams:
    shapes = more.pop("shapes", (Shape(H100),))
    return BatchParams(shapes, queues or (queue("a"),), reserve_after_s=more.pop("reserve_after_s", 0.0), **more)
