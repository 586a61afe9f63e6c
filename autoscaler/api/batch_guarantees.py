"""What each queue is guaranteed where its parent has less to give than its children were promised.

Enters: the specs of a tree without circles. Leaves: units by queue and shape, cut in proportion from the top down, so
that no queue promises more than it has, and a finding for each queue that did.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.api.batch_findings import TreeCode, TreeFinding
from autoscaler.api.batch_queue import BatchQueueSpec, ShapeQuota


@dataclass(slots=True)
class Guarantees:
    """Cuts guarantees that a parent cannot keep; what it finds is added to `found`."""

    serving: Mapping[str, BatchQueueSpec]
    found: list[TreeFinding]
    kept: dict[str, dict[str, int]] = field(init=False)
    """By queue and shape: what it is guaranteed."""
    _children: dict[str | None, list[str]] = field(init=False)
    _stated: dict[str, dict[str, ShapeQuota]] = field(init=False)

    def __post_init__(self) -> None:
        self.kept = {name: {} for name in self.serving}
        self._children = {}
        for name, spec in sorted(self.serving.items()):
            self._children.setdefault(spec.parent, []).append(name)
        self._stated = {name: {quota.shape: quota for quota in spec.quotas} for name, spec in self.serving.items()}
        for shape in sorted({shape for stated in self._stated.values() for shape in stated}):
            for name in self._children.get(None, ()):
                self._cut(name, shape, self._wants(name, shape))

    def _wants(self, name: str, shape: str) -> int:
        """What a queue states, or its children do where it states nothing, as far as its limit allows."""
        quota = self._stated[name].get(shape)
        if quota is not None and quota.guaranteed > 0:
            return quota.guaranteed
        wanted = sum(self._wants(child, shape) for child in self._children.get(name, ()))
        return wanted if quota is None or quota.limit is None else min(wanted, quota.limit)

    def _cut(self, name: str, shape: str, has: int) -> None:
        if shape in self._stated[name]:
            self.kept[name][shape] = has
        children = self._children.get(name, ())
        wants = {child: self._wants(child, shape) for child in children}
        promised = sum(wants.values())
        if promised > has and has == self._wants(name, shape):
            field = "guaranteed" if self._stated[name][shape].guaranteed else "limit"
            words = f"spec.quotas[{shape}].{field}: {has} is less than the {promised} that its children are guaranteed"
            remedy = "each of them gets its part of it; raise it, or promise the children less"
            self.found.append(TreeFinding(name, TreeCode.PROMISED_TOO_MUCH, f"{words}; {remedy}"))
        for child, wanted in wants.items():
            self._cut(child, shape, wanted if promised <= has else wanted * has // promised)
