"""What the newest ready pod of each workload was like, so that a workload at zero replicas still has its starts.

Enters: pods that became ready, in any order. Leaves: the kind that a workload's next start is alike to, whatever its
node, and a checkpoint. How long starts took is the stage clock's; here is only whose they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from autoscaler.core.capacity.podtimes import Kind

VERSION: Final = 1
"""Raised when a key changes its meaning or goes."""

MOST_WORKLOADS: Final = 4096
"""Workloads that are remembered, those at zero replicas and those that are gone included."""

KEEP_WORKLOADS: Final = 2048
"""Workloads in a checkpoint, those of the newest pods: with the longest names there are these fill 700 KiB."""


@dataclass(frozen=True, slots=True)
class _Last:
    created_s: float
    """When the pod was made."""
    kind: Kind


class LastStarts:
    """Takes pods that are ready and keeps each workload's newest."""

    def __init__(self) -> None:
        self._last: dict[str, _Last] = {}
        """Workload -> its newest, the workload that was told last at the end."""

    def note(self, workload: str, created_s: float, kind: Kind) -> None:
        """A pod of a workload is ready; one that is older than the newest changes nothing."""
        last = self._last.get(workload)
        if last is not None and last.created_s > created_s:
            return
        self._last.pop(workload, None)
        self._last[workload] = _Last(created_s, replace(kind, node_is_new=False, image_was_present=False))
        if len(self._last) > MOST_WORKLOADS:
            del self._last[next(iter(self._last))]

    def kind(self, workload: str) -> Kind | None:
        """What its starts are alike in, the state of the node left out (both false); None before a pod was ready."""
        last = self._last.get(workload)
        return None if last is None else last.kind

    def pack(self, measured: Callable[[Kind], bool]) -> dict[str, Any]:
        """The workloads whose kind `measured` knows, as plain JSON values; of others there is nothing to keep."""
        known = {name: last for name, last in self._last.items() if measured(last.kind)}
        newest = sorted(known.items(), key=lambda each: (-each[1].created_s, each[0]))[:KEEP_WORKLOADS]
        kinds = sorted({(last.kind.model, last.kind.shape) for _, last in newest})
        place = {kind: at for at, kind in enumerate(kinds)}
        workloads = {name: [last.created_s, place[last.kind.model, last.kind.shape]] for name, last in newest}
        return {"version": VERSION, "kinds": [list(kind) for kind in kinds], "workloads": workloads}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take a checkpoint; what was told by now and is newer stays. Raises ValueError for another version or shape,
        and takes nothing then."""
        if saved.get("version") != VERSION:
            raise ValueError(f"last starts: version {saved.get('version')!r}, this build reads {VERSION}")
        try:
            kinds = [Kind(str(model), str(shape), False, False) for model, shape in saved["kinds"]]
            found = {
                str(name): _Last(float(created_s), kinds[int(at)])
                for name, (created_s, at) in saved["workloads"].items()
            }
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"last starts: {type(error).__name__}: {error}") from error
        for name, last in sorted(found.items(), key=lambda each: each[1].created_s):
            self.note(name, last.created_s, last.kind)
