"""Circuits: after repeated trouble nothing more is tried for a while, then one probe, then all again.

Enters: instants of trouble and of success. Leaves: whether to try now. One rule serves missing capacity per domain,
GPUs that never come, and images or weights that fail. Jitter comes from the circuit's own name, so that a restart and
a second replica agree.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from autoscaler.core.doubling import doubled


@dataclass(frozen=True, slots=True)
class Rule:
    """When a circuit opens, and for how long."""

    threshold: int
    """Troubles within the window that open it."""
    window_s: float
    base_s: float
    """How long it stays open the first time; twice as long each further time."""
    most_s: float


CAPACITY: Final = Rule(threshold=2, window_s=300.0, base_s=180.0, most_s=1800.0)
"""AWS hides an offering for 3 minutes after an insufficient-capacity error; more is a guess."""

OFFER: Final = Rule(threshold=1, window_s=300.0, base_s=180.0, most_s=1800.0)
"""A provider that offers nothing of a NodePool has failed to launch there already."""

GPUS: Final = Rule(threshold=3, window_s=3600.0, base_s=1800.0, most_s=4 * 3600.0)
"""Three nodes whose GPUs never came within an hour are a bad image or driver (a guess)."""

CONTENT: Final = Rule(threshold=3, window_s=3600.0, base_s=600.0, most_s=3600.0)
"""Three slots whose image or weights failed within an hour (a guess)."""

JITTER: Final = 0.1


class Position(Enum):
    """Whether to try."""

    CLOSED = "closed"
    HALF_OPEN = "half-open"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Circuit:
    """One circuit's memory; the default is closed and has seen nothing."""

    troubles_s: tuple[float, ...] = ()
    """Troubles that still count towards opening."""
    opened: int = 0
    """How many times in a row it opened; 0 is closed."""
    until_s: float = 0.0
    trouble_s: float | None = None
    """The last trouble, counted or not."""
    success_s: float | None = None
    """The last success."""

    def position(self, now_s: float) -> Position:
        """Where it stands."""
        if not self.opened:
            return Position.CLOSED
        return Position.OPEN if now_s < self.until_s else Position.HALF_OPEN


def troubled(circuit: Circuit, at_s: float, rule: Rule, name: str) -> Circuit:
    """The circuit after a trouble; one that is half-open opens again at once, one that is open stays as it is."""
    if circuit.success_s is not None and at_s <= circuit.success_s:
        return circuit
    last_s = at_s if circuit.trouble_s is None else max(at_s, circuit.trouble_s)
    position = circuit.position(at_s)
    if position is Position.OPEN:
        return replace(circuit, trouble_s=last_s)
    recent = (*(t for t in circuit.troubles_s if at_s - t < rule.window_s), at_s)[-rule.threshold :]
    if position is Position.CLOSED and len(recent) < rule.threshold:
        return replace(circuit, troubles_s=recent, trouble_s=last_s)
    opened = circuit.opened + 1
    spread = 1.0 + JITTER * fraction(f"{name}/{opened}")
    lasts_s = doubled(rule.base_s, opened - 1, rule.most_s) * spread
    return replace(circuit, troubles_s=(), opened=opened, until_s=at_s + lasts_s, trouble_s=last_s)


def succeeded(circuit: Circuit, at_s: float) -> Circuit:
    """The circuit after a success: closed, unless a trouble is newer."""
    if circuit.success_s is not None and at_s <= circuit.success_s:
        return circuit
    if circuit.trouble_s is not None and at_s <= circuit.trouble_s:
        return replace(circuit, success_s=at_s)
    return Circuit(trouble_s=circuit.trouble_s, success_s=at_s)


def worst(positions: Iterable[Position]) -> Position:
    """The most closed-off of several positions; closed without any."""
    order = list(Position)
    return max(positions, key=order.index, default=Position.CLOSED)


def best(positions: Iterable[Position]) -> Position:
    """The most open-to-trying of several positions; closed without any."""
    order = list(Position)
    return min(positions, key=order.index, default=Position.CLOSED)


def fraction(name: str) -> float:
    """A number in 0..1 that depends on the name alone."""
    return zlib.crc32(name.encode()) / 2**32
