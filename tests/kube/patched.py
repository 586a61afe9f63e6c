"""A server that takes patches of one object, and keeps what was sent."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.ports import Fault

Changes = Sequence[dict[str, Any]]


class Patched:
    """Answers each patch with what `answers` makes of it; `refuses` says with which status one is not taken, if so."""

    def __init__(
        self, answers: Callable[[Changes], dict[str, Any]], refuses: Callable[[Changes], int | None] = lambda _: None
    ) -> None:
        self._answers, self._refuses = answers, refuses
        self.sent: list[tuple[str, Changes]] = []
        """Each with its path, refused or not."""

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: Any) -> Answer:
        """Take a patch, or refuse it."""
        assert body is not None
        changes = msgspec.json.decode(body)
        self.sent.append((path, changes))
        status = self._refuses(changes)
        if status is not None:
            error = KubeError(Fault.DENIED, "a webhook does not want it", status=status)
            error.sent = True
            raise error
        return Answer(200, msgspec.json.encode(self._answers(changes)), {})

    @property
    def patches(self) -> list[Changes]:
        """What was sent, without where."""
        return [changes for _, changes in self.sent]
