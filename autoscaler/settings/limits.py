"""The part of the settings that bounds what tenants may bring: no number of objects shall cost the controller its
memory."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from autoscaler.settings.parts import NO_SWITCH, Part

MOST_KEPT: Final = 6000
"""Workloads whose checkpoints of 4 KiB fit 32 ConfigMaps of 900 KiB, with the longest names and those of 600 that went
within the day; where they do not fit none is written."""


def _kept(workloads: int) -> int:
    if workloads > MOST_KEPT:
        raise ValueError(
            f"{workloads} is above {MOST_KEPT}, of which checkpoints can be kept: with more, a restart would know "
            "nothing of any; let a second installation with its own lease.name and watch_namespaces take the rest"
        )
    return workloads


Workloads = Annotated[int, Field(ge=1, json_schema_extra={"maximum": MOST_KEPT}), AfterValidator(_kept), NO_SWITCH]
OfNamespace = Annotated[int, Field(ge=1, le=100_000), NO_SWITCH]
Gangs = Annotated[int, Field(ge=1, le=1_000_000), NO_SWITCH]


class Limits(Part):
    """How many workloads are taken up; each takes some 60 kB of memory, and 4 kB in the checkpoints, which hold 28 MiB.
    Beyond that those that are taken up already stay, then the oldest come first, and the others are told so. How many
    gangs of batch work are taken in, which has a rule of its own."""

    workloads: Workloads = 5000
    """In all: some 300 MB of the 1 GiB that the chart lets the controller have."""
    namespace_workloads: OfNamespace = 1000
    """Of one namespace."""
    batch_work: Gangs = 50_000
    """Gangs of batch work, running ones included: some 270 MB. Beyond that the last of whichever queue has most of them
    are not taken in until there is room; what runs always is."""
