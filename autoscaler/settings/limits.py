"""The part of the settings that bounds what tenants may bring: no number of objects shall cost the controller its
memory."""

from typing import Annotated

from pydantic import Field

from autoscaler.settings.parts import NO_SWITCH, Part

Workloads = Annotated[int, Field(ge=1, le=100_000), NO_SWITCH]


class Limits(Part):
    """How many workloads are taken up; each takes some 60 kB of memory, and 4 kB in the checkpoints, which hold 28 MiB.
    Beyond that those that are taken up already stay, then the oldest come first, and the others are told so."""

    workloads: Workloads = 5000
    """In all: some 300 MB of the 1 GiB that the chart lets the controller have."""
    namespace_workloads: Workloads = 1000
    """Of one namespace."""
