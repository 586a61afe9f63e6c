"""Answers about batch work over HTTP: all queues with the gangs worth telling, one queue, one gang.

Enters: what batch admission keeps in memory, names out of a path. Leaves: values that become JSON, with the explanation
that `headroom explain` prints; or `RefusedError` with what to ask instead.
"""

from dataclasses import dataclass
from typing import Final

from autoscaler.adapters.web.asked import RefusedError
from autoscaler.record.batch import BatchBook, BatchTold, GangTold, QueueTold
from autoscaler.record.batch_lines import BatchLines, batch_lines
from autoscaler.record.batch_words import gang_page, queue_page

MOST_NAMED: Final = 5
"""Gangs of one name that a refusal lists."""


@dataclass(frozen=True, slots=True)
class QueueAnswer:
    """One queue, with its explanation."""

    queue: QueueTold
    explained: str


@dataclass(frozen=True, slots=True)
class GangAnswer:
    """One gang, with its explanation."""

    gang: GangTold
    explained: str


class BatchAnswers:
    """Answers from memory. Without a book, and before its first look, every question is refused."""

    def __init__(self, book: BatchBook | None) -> None:
        self._book = book

    def lines(self) -> BatchLines:
        """All queues, and the gangs worth telling."""
        return batch_lines(self._told()[1])

    def queue(self, name: str) -> QueueAnswer:
        """One queue."""
        told = self._told()[1]
        found = next((queue for queue in told.queues if queue.name == name), None)
        if found is None:
            listed = "`headroom queue` (/api/batch) lists those there are"
            raise RefusedError(404, f"there is no BatchQueue {name[:100]!r}; {listed}")
        return QueueAnswer(found, queue_page(found, told))

    def gang(self, kind: str, namespace: str | None, name: str) -> GangAnswer:
        """One gang of this kind and name; without a namespace, the only one of them."""
        book, told = self._told()
        found = book.find(kind, namespace, name)
        asked = "/".join(part[:100] for part in (kind, namespace, name) if part is not None)
        if not found:
            words = "is no batch work that a BatchQueue is named by, or it has ended"
            raise RefusedError(404, f"{asked} {words}; `headroom queue` (/api/batch) lists what is")
        if len(found) > 1:
            named = ", ".join(gang.key for gang in found[:MOST_NAMED])
            raise RefusedError(409, f"{asked} stands in {len(found)} namespaces; ask for one of {named}")
        return GangAnswer(found[0], gang_page(found[0], told.now_s))

    def _told(self) -> tuple[BatchBook, BatchTold]:
        if self._book is None:
            raise RefusedError(404, "batch work is not admitted here; set batch.enabled, and give the rights for it")
        told = self._book.told()
        if told is None:
            raise RefusedError(503, "batch work was not looked at yet; ask again in a few seconds")
        return self._book, told
