"""What a pool remembers, without instants that have not come.

Enters: a checkpoint's state and the present. Leaves: the same state, in which nothing was seen later than now and no
wait is longer than its rule allows. A replica whose machine's clock was an hour ahead leaves such a checkpoint; as it
stands, demand would not be noted for an hour, and circuits, orders and targets would last as much longer.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from autoscaler.core.pool import history
from autoscaler.core.pool.circuits import CAPACITY, CONTENT, GPUS, JITTER, OFFER, Circuit, Rule
from autoscaler.core.pool.gangs import LONGEST_S
from autoscaler.core.pool.pending import AHEAD_S
from autoscaler.core.pool.state import Circuits, PoolState

LAUNCH: Final = max(CAPACITY, OFFER, key=lambda rule: rule.most_s)
"""A domain's circuit does not keep which of the two opened it."""


def until(state: PoolState, now_s: float) -> PoolState:
    """The state without anything later than `now_s`, seconds since 1970; the state itself where nothing is."""
    clamped = replace(
        state,
        history=history.until(state.history, now_s),
        clock=replace(
            state.clock, newest_s=min(state.clock.newest_s, now_s), restored_s=min(state.clock.restored_s, now_s)
        ),
        circuits=_circuits(state.circuits, now_s, state.claims_read_s),
        claims_read_s=_least(state.claims_read_s, now_s),
        leveled_bin=None if state.leveled_bin is None else min(state.leveled_bin, math.floor(now_s / history.BIN_S)),
        targets=tuple((min(at_s, now_s), slots) for at_s, slots in state.targets),
        ordered={name: replace(each, at_s=min(each.at_s, now_s)) for name, each in state.ordered.items()},
        made={name: replace(each, at_s=min(each.at_s, now_s)) for name, each in state.made.items()},
        dropped=_instants(state.dropped, now_s),
        marked={uid: replace(each, at_s=min(each.at_s, now_s)) for uid, each in state.marked.items()},
        edited={name: replace(each, at_s=min(each.at_s, now_s)) for name, each in state.edited.items()},
        handed={name: replace(each, at_s=min(each.at_s, now_s)) for name, each in state.handed.items()},
        gave_back={
            uid: replace(each, until_s=min(each.until_s, now_s + LONGEST_S)) for uid, each in state.gave_back.items()
        },
        created_s=min(state.created_s, now_s),
    )
    return state if clamped == state else clamped


def _circuits(circuits: Circuits, now_s: float, read_s: float | None) -> Circuits:
    """When claims were read by a clock that was ahead nobody knows: those that are no more may have been anything."""
    unknown = read_s is not None and read_s > now_s + AHEAD_S
    return replace(
        circuits,
        unlaunched={} if unknown else circuits.unlaunched,
        unjoined={} if unknown else circuits.unjoined,
        capacity={domain: _circuit(kept, now_s, LAUNCH) for domain, kept in circuits.capacity.items()},
        gpus={tier: _circuit(kept, now_s, GPUS) for tier, kept in circuits.gpus.items()},
        content=_circuit(circuits.content, now_s, CONTENT),
        told=_instants(circuits.told, now_s),
    )


def _circuit(kept: Circuit, now_s: float, rule: Rule) -> Circuit:
    return replace(
        kept,
        troubles_s=tuple(min(at_s, now_s) for at_s in kept.troubles_s),
        until_s=min(kept.until_s, now_s + (1.0 + JITTER) * rule.most_s),
        trouble_s=_least(kept.trouble_s, now_s),
        success_s=_least(kept.success_s, now_s),
    )


def _instants(told: Mapping[str, float], now_s: float) -> dict[str, float]:
    return {each: min(at_s, now_s) for each, at_s in told.items()}


def _least(at_s: float | None, now_s: float) -> float | None:
    return None if at_s is None else min(at_s, now_s)
