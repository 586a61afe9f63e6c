"""Who decides how many: `headroom decide --jsonl` as a child process, an HPA on what is in the system, a constant.

Enters: a reading, as a line of the contract. Leaves: a count. All see the same readings, and none sees the plant.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any, Final, Protocol, Self

from autoscaler.errors import HeadroomError

DECIDE: Final = (sys.executable, "-m", "autoscaler", "decide", "--jsonl")
ENDS_WITHIN_S: Final = 60.0


class Policy(Protocol):
    """Decides at each tick."""

    def decide(self, line: dict[str, Any]) -> int:
        """Replicas to order."""


class Decide:
    """A child process that is asked line by line; use it as a context. HeadroomError where it refuses or ends."""

    def __init__(self, command: Sequence[str] = DECIDE, keep: IO[str] | None = None) -> None:
        self._command, self._keep = tuple(command), keep

    def __enter__(self) -> Self:
        self._told = tempfile.TemporaryFile("w+", errors="replace")
        try:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._told, text=True
            )
        except OSError as error:
            self._told.close()
            raise HeadroomError(f"{self._command[0]}: cannot be started ({error.strerror})") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes its input and waits for its end; what went wrong before stays what is told."""
        try:
            if kind is not None:
                self._child.kill()
            self._child.communicate(timeout=ENDS_WITHIN_S)
            if kind is None and self._child.returncode:
                raise HeadroomError(f"decide ended with exit code {self._child.returncode}: {self._last_words()}")
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.communicate()
            raise HeadroomError(f"decide did not end within {ENDS_WITHIN_S:g} s of the end of its input") from None
        finally:
            self._told.close()

    def decide(self, line: dict[str, Any]) -> int:
        """See `Policy`."""
        text = json.dumps(line, separators=(",", ":"), allow_nan=False)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(text + "\n")
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise HeadroomError(f"decide ended before second {line['now_s']:g}: {self._last_words()}") from error
        answer = self._child.stdout.readline()
        if not answer:
            raise HeadroomError(f"decide ended at second {line['now_s']:g}: {self._last_words()}")
        if self._keep is not None:
            self._keep.write(f"{text}\n{answer}")
        try:
            told = json.loads(answer)
            replicas = told["replicas"]
        except (ValueError, KeyError, TypeError) as error:
            raise HeadroomError(f"decide at second {line['now_s']:g} answered no count: {answer[:300]!r}") from error
        if not isinstance(replicas, int):
            raise HeadroomError(f"decide at second {line['now_s']:g} answered no count: {answer[:300]!r}")
        return replicas

    def _last_words(self) -> str:
        self._told.seek(0)
        return self._told.read()[-300:].strip() or "it said nothing"


class Constant:
    """Always the same."""

    def __init__(self, count: int) -> None:
        self._count = count

    def decide(self, line: dict[str, Any]) -> int:
        """See `Policy`."""
        return self._count


class Hpa:
    """Kubernetes' HPA at its defaults, on requests over slots, at each tick instead of each 15 s.

    The requests are those in service, or all in the system: the first never asks for much and takes a start for each
    step, the second takes a line that short requests leave for places that are needed.

    ceil(pods x utilisation / target), where pods that start count with 0; nothing within 10 % of the target; at most
    twice as many or four more within 15 s; down to the highest of the last 300 s, where the count it finds at first is
    one of them (autoscaling/v2, the API reference; kube-controller-manager). Where a reading is missing it holds.
    """

    TOLERANCE: Final = 0.1
    DOWN_AFTER_S: Final = 300.0
    UP_WITHIN_S: Final = 15.0

    def __init__(self, slots: int, target_ratio: float, *, waiting: bool) -> None:
        self._per_replica, self._waiting = slots * target_ratio, waiting
        self._wanted: deque[tuple[float, int]] = deque()
        self._stood: deque[tuple[float, int]] = deque()

    def decide(self, line: dict[str, Any]) -> int:
        """See `Policy`."""
        now_s, desired = float(line["now_s"]), int(line["replicas"]["desired"])
        least, most = int(line["policy"]["min_replicas"]), int(line["policy"]["max_replicas"])
        within = in_system(line, waiting=self._waiting)
        if within is None:
            return max(least, min(most, desired))
        wanted = max(1, math.ceil(within / self._per_replica))
        if desired and abs(within / self._per_replica / desired - 1.0) <= self.TOLERANCE:
            wanted = desired
        _forget(self._stood, now_s - self.UP_WITHIN_S)
        self._stood.append((now_s, desired))
        before = min(count for _, count in self._stood)
        wanted = min(wanted, max(2 * before, before + 4))
        if not self._wanted:
            self._wanted.append((now_s, desired))
        _forget(self._wanted, now_s - self.DOWN_AFTER_S)
        self._wanted.append((now_s, wanted))
        highest = max(count for _, count in self._wanted)
        return int(max(least, min(most, max(wanted, min(desired, highest)))))


def in_system(line: dict[str, Any], *, waiting: bool) -> int | None:
    """Requests in service, with those that wait if asked for, as a reading tells; None where a part is missing."""
    gateway, told = line["gateway"], ("running", "waiting") if waiting else ("running",)
    counts = [pod.get(what) for pod in line["pods"] for what in told]
    if waiting:
        counts.append(None if gateway is None else gateway["queued"])
    known = [int(count) for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _forget(seen: deque[tuple[float, int]], before_s: float) -> None:
    while seen and seen[0][0] <= before_s:
        seen.popleft()
