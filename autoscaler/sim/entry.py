"""One policy's part in a comparison: run, judged, and for a rival swept in hindsight, with its frontier.

Enters: a name, an instance, its bounds and a way to make a fresh serving model. Leaves: an Entry. It draws nothing and
knows no terminal.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autoscaler.core.types import Decision, Readings
from autoscaler.sim.contest import Bounds, make_policy
from autoscaler.sim.headroom import Foreseen, HeadroomPolicy
from autoscaler.sim.instance import Instance
from autoscaler.sim.policy import Policy
from autoscaler.sim.requestlevel import latency
from autoscaler.sim.rivals import RIVALS, Knob, make_rival, view_of
from autoscaler.sim.score import Reference, Score, score
from autoscaler.sim.serving.profile import Profile
from autoscaler.sim.serving.requests import RequestServing
from autoscaler.sim.simulate import Run, run
from autoscaler.sim.sweep import GOAL, Frontier, sweep

Progress = Callable[[float], None]
"""Gets the share of the entry's work that is done, 0..1."""


def untold(share: float) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished run with its score."""

    name: str
    run: Run
    score: Score
    knob: Knob | None
    """A rival's setting; None for ours, which has none."""
    frontier: Frontier | None = None
    """All settings of a rival that was swept."""
    latency: dict[str, object] | None = None
    """Percentiles of what requests lived through; None where they were not followed one by one."""
    decisions: tuple[Decision, ...] = ()
    """All of ours with their reasons, where they were to be kept."""
    forecasts: tuple[Foreseen, ...] = ()
    """One for each of the decisions."""


def enter(
    name: str,
    instance: Instance,
    reference: Reference,
    bounds: Bounds,
    *,
    profile: Profile | None = None,
    progress: Progress = untold,
    keep_decisions: bool = False,
) -> Entry:
    """Run the policy at its default; served request by request where a profile is given, else as a fluid."""
    knob = RIVALS[name].DEFAULT if name in RIVALS else None
    policy = make_policy(name, instance, bounds)
    if not (keep_decisions and isinstance(policy, HeadroomPolicy)):
        return _played(policy, instance, reference, knob=knob, profile=profile, progress=progress)
    kept = Remembering(policy)
    entry = _played(kept, instance, reference, knob=knob, profile=profile, progress=progress)
    return replace(entry, decisions=tuple(kept.decisions), forecasts=tuple(kept.forecasts))


@dataclass(slots=True)
class Remembering:
    """Our policy, whose decisions and forecasts are kept as they are made."""

    policy: HeadroomPolicy
    decisions: list[Decision] = field(default_factory=list)
    forecasts: list[Foreseen] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The policy's own."""
        return self.policy.name

    @property
    def tick_s(self) -> float:
        """The policy's own pace, in seconds."""
        return self.policy.tick_s

    @property
    def coverage(self) -> float | None:
        """Share of the policy's bounds that held."""
        return self.policy.coverage

    def decide(self, readings: Readings) -> int:
        """The policy's count."""
        replicas = self.policy.decide(readings)
        if self.policy.last is not None:
            self.decisions.append(self.policy.last)
        if (foreseen := self.policy.foreseen) is not None:
            self.forecasts.append(foreseen)
        return replicas


def enter_swept(
    name: str, instance: Instance, reference: Reference, *, processes: int = 1, progress: Progress = untold
) -> Entry:
    """Run the rival at every setting on the fluid plant and once more at the best one.

    The best is the cheapest that reaches the goal; where none does, the one that comes closest.
    """

    def tell(done: int, total: int) -> None:
        progress(done / (total + 1))

    frontier = sweep(instance.traffic, instance.spec, (name,), processes=processes, progress=tell)[0]
    best = frontier.cheapest() or max(frontier.points, key=lambda point: point.score.attainment)
    rival = make_rival(name, view_of(instance.traffic, instance.spec), best.knob)
    entry = _played(rival, instance, reference, knob=best.knob)
    progress(1.0)
    return replace(entry, frontier=frontier)


def swept_record(frontier: Frontier, reference: Reference) -> dict[str, object]:
    """The frontier for a reader: the cheapest run that reaches the goal and the cost at exactly the goal, if any."""
    cheapest, hours = frontier.cheapest(), frontier.hours_at()
    return {
        "goal": GOAL,
        "settings": len(frontier.points),
        "cheapest": None if cheapest is None else {
            "knob": list(cheapest.knob),
            "attainment": cheapest.score.attainment,
            "gpu_hours": cheapest.score.gpu_hours.total,
            "ratio_d2": cheapest.score.ratio_d2,
        },
        "at_goal": None if hours is None else {
            "gpu_hours": hours,
            "ratio_d2": hours * 3600.0 / reference.d2_s if reference.d2_s else None,
        },
    }  # fmt: skip


def _played(
    policy: Policy,
    instance: Instance,
    reference: Reference,
    *,
    knob: Knob | None,
    profile: Profile | None = None,
    progress: Progress = untold,
) -> Entry:
    traffic, spec = instance.traffic, instance.spec
    serving = None if profile is None else RequestServing(profile, traffic, seed=spec.seed)
    done = run(traffic, spec, policy, serving=serving, progress=lambda now_s: progress(now_s / traffic.duration_s))
    progress(1.0)
    times = None if serving is None else latency(serving.times())
    return Entry(policy.name, done, score(done, reference), knob, latency=times)
