"""What the PriorityClasses of a cluster say of pods that name one, or none.

Enters: the classes by name. Leaves: a priority; whether the scheduler takes warm slots away for a pod.
"""

from collections.abc import Mapping

from autoscaler.adapters.kube.pool_objects import PriorityClass


def priority(classes: Mapping[str, PriorityClass], name: str) -> int | None:
    """The value of a class; of the default one for an empty name, 0 where there is none; else None."""
    if not name:
        return next((one.value for one in classes.values() if one.global_default), 0)
    found = classes.get(name)
    return None if found is None else found.value


def displaces(classes: Mapping[str, PriorityClass], slot_class: str, name: str) -> bool:
    """Whether the scheduler makes room for pods of a class by taking pods of the class of warm slots away."""
    mine = next((each for key, each in classes.items() if key == name or (not name and each.global_default)), None)
    slots = classes.get(slot_class)
    never = mine is not None and mine.preemption_policy == "Never"
    return slots is not None and not never and slots.value < (0 if mine is None else mine.value)
