"""What a clairvoyant would pay: two reference costs of an instance, in replica-seconds, with their schedules.

Enters: traffic and the plant's spec. Leaves: D1, an integer schedule without slack, and D2, a lower bound on every
policy that serves at least 99 % in time. Failures, node losses, drains and outages are ignored: they only add cost.

D2 is a linear program over slots of min(10 s, slo_wait_s), floored to whole steps of the traffic. It holds for policies
that move on the finer steps, because any run that reaches 1 - miss_ratio maps to a feasible point that costs no more:

- n_k is the mean of the ready count over slot k, so the cost of being ready is equal. Means over consecutive slots rise
  no more in sum than the path itself (pair the slots by relative position), so sum u_k <= the starts that became ready;
  each of them was billed a full warm-up inside the run. Opening replicas are free: n before the first slot is theirs.
- Work is split into what is served in time and what is missed. At slot edges, q_k is what has arrived and is neither:
  q_k >= 0 is causality, sampled. Work that arrived by t_k - W is served or missed by t_k, hence
  q_k <= A(t_k) - A(t_j), t_j the last edge at or before t_k - W: an earlier edge only loosens it. Work whose deadline
  lies after the end has none, as in the score.
- Missed work sums to at most miss_ratio of all. Service within a slot is at most capacity * slot * n_k.
- Before one constant warm-up has passed nobody has more than the opening count, so neither has n in slots that end by
  then. If that alone makes more late than miss_ratio, the budget grows to what is unavoidable and is reported.

With a random warm-up a start is billed its mean and may be early: D2 is then a bound in expectation, for policies that
do not pick the quick starts of many and cancel the rest.
"""

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from autoscaler.errors import HeadroomError
from autoscaler.sim.plant import PlantSpec, opening_replicas
from autoscaler.sim.score import Reference
from autoscaler.sim.serving import FloatArray
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup

MISS_RATIO = 0.01
"""Share of the requests that may be late: the objective is 99 % in time."""
MAX_SLOT_S = 10.0
_TOLERANCE = 1e-9
_Key = tuple[str, float, float, Warmup, float, int, float]
_CACHE: dict[_Key, Reference] = {}


@dataclass(frozen=True, slots=True)
class ClairvoyantFluid:
    """D2: its cost and one schedule that attains it; arrays have shape (slots,)."""

    cost_s: float
    """Replica-seconds, warm-ups included."""
    replicas: FloatArray
    starts: FloatArray
    edges_s: FloatArray
    """Shape (slots + 1,): where the slots begin and end."""
    miss_ratio: float
    """The miss budget used: the one asked for, or what no policy can avoid if that is more."""


def reference(traffic: Traffic, spec: PlantSpec, miss_ratio: float = MISS_RATIO) -> Reference:
    """D1 and D2 of the instance; remembered for the life of the process."""
    digest = hashlib.sha256(traffic.arrivals.tobytes()).hexdigest()
    key = (digest, traffic.step_s, spec.capacity_rps, spec.warmup, spec.slo_wait_s, spec.max_replicas, miss_ratio)
    if key not in _CACHE:
        fluid = d2(traffic, spec, miss_ratio)
        per_step_s = _per_step_s(fluid, traffic, spec)
        _CACHE[key] = Reference(d1_s(traffic, spec), fluid.cost_s, per_step_s)
    return _CACHE[key]


def d1_s(traffic: Traffic, spec: PlantSpec) -> float:
    """Cost in replica-seconds of the cheapest integer schedule that leaves no slot's work to the next slot.

    Slot k needs ceil(arrivals / (capacity * slot)) replicas. Level by level, a replica is kept through a gap no longer
    than a billed warm-up, else dropped and started again, which is optimal per level and so for the sum. Opening levels
    are free until their first drop. Needs above the opening count within the first warm-up are clipped: nobody can have
    them. Where nothing was clipped the schedule is achievable and nobody waits longer than one slot.
    """
    edges_s, arrived = _slots(traffic, spec)
    length_s = np.diff(edges_s)
    need = np.ceil(np.diff(arrived) / (spec.capacity_rps * length_s) - _TOLERANCE).astype(np.int64)
    opening, warmup_s = opening_replicas(traffic, spec), spec.warmup.mean_s
    need = np.minimum(need, np.where(edges_s[:-1] < warmup_s - _TOLERANCE, opening, spec.max_replicas))
    cost_s = 0.0
    for level in range(1, int(need.max(initial=0)) + 1):
        needed = need >= level
        cost_s += float(length_s[needed].sum())
        rises = np.flatnonzero(needed & ~np.append(False, needed[:-1]))
        falls = np.flatnonzero(needed & ~np.append(needed[1:], False))
        gaps_s = edges_s[rises[1:]] - edges_s[falls[:-1] + 1]
        first_s = float(edges_s[rises[0]]) if level <= opening else math.inf
        cost_s += float(np.minimum(gaps_s, warmup_s).sum()) + min(first_s, warmup_s)
    return cost_s


def d2(traffic: Traffic, spec: PlantSpec, miss_ratio: float = MISS_RATIO) -> ClairvoyantFluid:
    """The lower bound of this module's docstring. Raises HeadroomError if the solver gives up."""
    edges_s, arrived = _slots(traffic, spec)
    length_s = np.diff(edges_s)
    slots = length_s.size
    new = np.diff(arrived) / spec.capacity_rps  # work in replica-seconds
    most = np.full(slots, float(spec.max_replicas))
    opening = opening_replicas(traffic, spec)
    if spec.warmup.constant:
        most[edges_s[1:] <= spec.warmup.mean_s + _TOLERANCE] = float(opening)
    due = np.searchsorted(edges_s, edges_s[1:] - spec.slo_wait_s + _TOLERANCE, side="right") - 1
    # An edge before the first deadline has due = -1: all that has arrived may still be open.
    open_most = (arrived[1:] - np.where(due >= 0, arrived[np.maximum(due, 0)], 0.0)) / spec.capacity_rps
    total = float(new.sum())
    budget = max(miss_ratio * total, _unavoidable(new, most * length_s, open_most) * (1.0 + _TOLERANCE))
    if total == 0.0:
        nothing = np.zeros(slots)
        return ClairvoyantFluid(0.0, nothing, nothing, edges_s, miss_ratio)
    start_s = spec.warmup.mean_s
    cost, replicas, starts = _solve(new, length_s, most, open_most, budget=budget, start_s=start_s, opening=opening)
    return ClairvoyantFluid(cost, replicas, starts, edges_s, budget / total)


def _solve(
    new: FloatArray, length_s: FloatArray, most: FloatArray, open_most: FloatArray,
    *, budget: float, start_s: float, opening: int,
) -> tuple[float, FloatArray, FloatArray]:  # fmt: skip
    """Solve the program over columns (n replicas, u starts, q open work, s service, m missed), slots each."""
    # Imported here, for they take a quarter of a second, which whoever asks `simulate` for its help would wait.
    from scipy.optimize import linprog  # noqa: PLC0415
    from scipy.sparse import csr_array, diags_array, eye_array, hstack, vstack  # noqa: PLC0415

    slots = new.size
    none, one = csr_array((slots, slots)), eye_array(slots)
    change = one - eye_array(slots, k=-1)
    balance = hstack([none, none, change, one, one])  # q_k - q_{k-1} + s_k + m_k = new_k
    rises = hstack([change, -one, none, none, none])  # n_k - n_{k-1} <= u_k
    serves = hstack([-diags_array(length_s), none, none, one, none])  # s_k <= length_k * n_k
    misses = hstack([csr_array((1, 4 * slots)), csr_array(np.ones((1, slots)))])
    first = np.zeros(slots)
    first[0] = float(opening)
    infinite = np.full(slots, np.inf)
    result = linprog(
        np.concatenate((length_s, np.full(slots, start_s), np.zeros(3 * slots))),
        A_ub=vstack([rises, serves, misses]).tocsr(),
        b_ub=np.concatenate((first, np.zeros(slots), [budget])),
        A_eq=balance.tocsr(),
        b_eq=new,
        bounds=np.column_stack((np.zeros(5 * slots), np.concatenate((most, infinite, open_most, infinite, infinite)))),
        method="highs-ipm",
    )
    if result.status != 0:
        raise HeadroomError(f"the clairvoyant bound was not solved: {result.message}")
    solution = np.asarray(result.x, dtype=np.float64)
    return float(result.fun), solution[:slots], solution[slots : 2 * slots]


def _slots(traffic: Traffic, spec: PlantSpec) -> tuple[FloatArray, FloatArray]:
    """Edges of the slots in seconds and requests arrived by each edge; the last slot may be shorter."""
    bins, step_s = traffic.arrivals.size, traffic.step_s
    width = max(1, math.floor(min(MAX_SLOT_S, spec.slo_wait_s) / step_s + _TOLERANCE))
    edges = np.append(np.arange(0, bins, width), bins)
    arrived = np.concatenate((np.zeros(1), np.cumsum(traffic.arrivals)))
    return np.asarray(edges * step_s, dtype=np.float64), np.asarray(arrived[edges], dtype=np.float64)


def _unavoidable(new: FloatArray, most_work: FloatArray, open_most: FloatArray) -> float:
    """Work that is late even at full capacity throughout: serve all one can, miss only what runs out of time."""
    waiting, missed = 0.0, 0.0
    for arrived, capacity, limit in zip(new.tolist(), most_work.tolist(), open_most.tolist(), strict=True):
        waiting = max(0.0, waiting + arrived - capacity)
        missed += max(0.0, waiting - limit)
        waiting = min(waiting, limit)
    return missed


def _per_step_s(fluid: ClairvoyantFluid, traffic: Traffic, spec: PlantSpec) -> FloatArray:
    """D2's bill per step of the traffic, shape (bins,): a start's warm-up falls on the time just before it is ready."""
    bins, step_s = traffic.arrivals.size, traffic.step_s
    edges = np.round(fluid.edges_s / step_s).astype(np.int64)
    bill_s = np.repeat(fluid.replicas, np.diff(edges)) * step_s
    steps = max(1, round(spec.warmup.mean_s / step_s))
    change = np.zeros(bins + 1)
    for slot in np.flatnonzero(fluid.starts > _TOLERANCE).tolist():
        from_step, to_step = max(0, int(edges[slot]) - steps), max(1, int(edges[slot]))
        share_s = fluid.starts[slot] * spec.warmup.mean_s / (to_step - from_step)
        change[from_step] += share_s
        change[to_step] -= share_s
    return bill_s + np.cumsum(change)[:bins]
