"""Labels by which other schedulers are told a queue, read as ours in namespaces that want that.

Enters: an object of a kind of batch work. Leaves: the object as if it carried our label, and none of Kueue's; unchanged
anywhere else, where such a label says that the object is somebody else's. Pods are not read so. Who admits it all the
same, such as a Kueue that runs beside us, is told by other things than labels (`batch_kueue`, schedulers' names).
"""

from collections.abc import Collection
from typing import Any, Final, TypeVar

import msgspec

from autoscaler.adapters.kube.batch_work import KUEUE
from autoscaler.api.batch_work import QUEUE

ALIASES: Final = (KUEUE + "queue-name", "kai.scheduler/queue", "yunikorn.apache.org/queue")
"""The first that is there counts; our own label goes before all."""

T = TypeVar("T")


class Aliases:
    """Reads objects of some namespaces so."""

    def __init__(self, namespaces: Collection[str] = ()) -> None:
        self._namespaces = frozenset(namespaces)

    def read(self, found: T) -> T:
        """An object as it is meant. It is a struct with metadata."""
        of: Any = found
        meta = of.metadata
        if meta.namespace not in self._namespaces:
            return found
        named = next((meta.labels[label] for label in (QUEUE, *ALIASES) if label in meta.labels), None)
        if named is None:
            return found
        labels = {key: value for key, value in meta.labels.items() if not key.startswith(KUEUE)} | {QUEUE: named}
        mended: T = msgspec.structs.replace(of, metadata=msgspec.structs.replace(meta, labels=labels))
        return mended
