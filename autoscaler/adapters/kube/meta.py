"""What Kubernetes objects have in common: metadata, conditions, quantities.

Enters: JSON, and quantities as they were written. Leaves: narrow structs and numbers; see `objects` for the rules.
"""

import math
import re
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from autoscaler.errors import InputError

Amounts: TypeAlias = dict[str, str | int | float]
"""Resource name -> quantity as written."""


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The object that another one belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What every object carries. Instants are aware (UTC); a deletion timestamp means that it is going away."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[Owner, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone for an object of the cluster."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One condition of a status; `status` is True, False or Unknown as text."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: datetime | None = None


_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?", re.ASCII)

_FACTORS: Final = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def quantity(amount: str | float) -> float:
    """A Kubernetes quantity ("1", "500m", "80Gi", "1e3") as a number of its base unit: CPUs, bytes, GPUs.

    Raises InputError for anything else.
    """
    if not isinstance(amount, str):
        amount = str(amount)
    parts = _QUANTITY.fullmatch(amount)
    digits, suffix = (parts[1], parts[2] or "") if parts else ("nan", "")
    number = float(digits) * _FACTORS[suffix] if suffix in _FACTORS else float(digits + suffix)
    if not math.isfinite(number):
        raise InputError(f"{amount!r} is no quantity; write a number with an optional suffix, such as 500m or 80Gi")
    return number
