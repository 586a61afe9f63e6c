"""Shares of GPU budgets in words: why a workload may not have what it wants, as its decisions' evidence carries it."""

from collections.abc import Sequence
from typing import Final

from autoscaler.core.scale.sharing import Cut
from autoscaler.record.explain import number

NAMED: Final = 2
"""Workloads that give way, by name; the others are counted."""


def budget_words(workload: str, cut: Cut, ranks: Sequence[str]) -> str:
    """Which budget cut the share of `workload` and who has its GPUs; `ranks` names each rank's kind of work.

    "namespace prod has 24 GPUs, 18 of them go to critical work".
    """
    whose = "the cluster" if cut.namespace is None else f"namespace {cut.namespace}"
    words = f"{whose} has {number(cut.budget_gpus)} GPUs"
    if cut.foreign_gpus:
        words += f", {number(cut.foreign_gpus)} of them are held by pods not scaled here"
    if cut.gpus_by_rank:
        first, *rest = [(number(gpus), ranks[rank]) for rank, gpus in cut.gpus_by_rank]
        words += f", {first[0]} of them go to {first[1]}"
        words += "".join(f" and {gpus} to {kind}" for gpus, kind in rest) + " work"
    elif cut.peers > 1:
        words += f", shared by {number(cut.peers)} workloads"
    if cut.yielding and workload not in cut.yielding:
        words += f"; {number(cut.yielding_gpus)} will come free from {_names(cut.yielding)}"
    return words


def _names(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = len(names) - NAMED
    shown = list(names) if more <= 0 else [*names[:NAMED], f"{number(more)} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
