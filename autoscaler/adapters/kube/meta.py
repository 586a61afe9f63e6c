"""What Kubernetes objects have in common: metadata, conditions, quantities.

Enters: JSON, and quantities as they were written. Leaves: narrow structs and numbers; see `objects` for the rules.
"""

import math
import re
from datetime import datetime
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from autoscaler.api.annotations import PREFIX
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


class Thin(Meta, frozen=True, gc=False, rename="camel"):
    """That of an object of which nothing else is held: another version of it is told from this one, and no more."""


def thinned(meta: Meta) -> Thin:
    """What tells an object and its version from others."""
    return Thin(meta.name, meta.namespace, meta.uid, meta.resource_version, meta.generation)


AGENT: Final = "headroom"
"""How our requests say who asks. The API server enters it in the managedFields of what they write, up to the slash of
the User-Agent (k8s.io/apiserver, endpoints/handlers: managerOrUserAgent)."""

READ: Final = (PREFIX, "autoscaling.keda.sh/", "controller.kubernetes.io/", "leaderworkerset.sigs.k8s.io/")
"""How the names of annotations begin that anybody here reads of what is scaled, of its pods and of who scales."""

MOST_READ: Final = 128
"""Such annotations of one object; there are fewer than that to give."""

LONGEST: Final = 4096
"""Characters of one that are held; no field takes as many."""


def let_go(found: msgspec.Struct, meta: Meta) -> None:
    """Have the struct with this metadata hold none but the annotations that are read: a quarter of a megabyte of others
    fits on each object, and anybody may make objects that cost nothing else by the thousand.

    For structs whose annotations are written back by no one.
    """
    if not meta.annotations:
        return
    read = ((name, text) for name, text in meta.annotations.items() if name.startswith(READ))
    kept = {name: text[:LONGEST] for name, text in islice(read, MOST_READ)}
    msgspec.structs.force_setattr(found, "metadata", msgspec.structs.replace(meta, annotations=kept))


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
