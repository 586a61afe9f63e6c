"""The stream behind `decide`: a line of readings in, a line of answer out, one table of workloads in between.

Enters: the bytes of one line. Leaves: the bytes of its answer, a decision or an error. A line is checked whole before
anything is changed, so a bad one leaves no trace. What a line does not say of the replicas is held from the line
before, as a live controller holds it. It reads no clock and draws no lots: the same lines give the same bytes.
"""

import codecs
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from autoscaler.api.faults import shown
from autoscaler.api.lines import KEYS, Line, SeenReplicas, decode_value, read_line, unread_fields, workload_of
from autoscaler.api.policy import Policy, compile_params, read_policy
from autoscaler.cli.rewound import Aside, put_back, taken_aside
from autoscaler.core import engine
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Readings, ReplicaReading, StartingReplica
from autoscaler.errors import InputError
from autoscaler.record.audit import trace_fields
from autoscaler.record.explain import sentence

GAP_S: Final = 3600.0
"""A line this much later than the last one is a clock that jumped or an hour of lost readings. Such a line is refused
once: if the next one is no earlier, time did move on and is followed; else the jump was the fault of that one line."""

JUMP_S: Final = 60.0
"""A line this much later than the last one is used, and may be wrong all the same: what goes on from before it would be
refused for up to `GAP_S` then. The first such line is; if the next one goes on as well, the one ahead is forgotten."""
JUMP_TICKS: Final = 4.0
"""As many ticks at least: a policy that looks once a minute has no jump in each line."""
MOST_UNREAD: Final = 20
"""So many fields that nothing reads are named: whoever starts this may never read its standard error, and a full pipe
would stop the answers."""


@dataclass(slots=True)
class Followed:
    """What the stream itself remembers of one workload; all else is in the table."""

    policy: Policy
    policy_json: bytes
    now_s: float
    replicas: ReplicaReading
    answered: int
    jumped_to_s: float | None = None
    """The instant of the line that was refused for its jump."""
    before: "tuple[Followed, Aside] | None" = None
    """What stood before the last line, where that came `JUMP_S` and more after the one before it."""
    fell_to_s: float | None = None
    """The instant of the line that went on from there and was refused."""


@dataclass(slots=True)
class DecideStream:
    """All workloads of one stream. `fit` makes a model from a request; it is called by `catch_up` only."""

    fit: Callable[[FitRequest], FittedModel]
    table: Table = field(default_factory=Table.empty)
    followed: dict[str, Followed] = field(default_factory=dict)
    decided: int = 0
    lines: int = 0
    wanted_fits: list[FitRequest] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    """What whoever writes the lines should know and no answer says; whoever tells it clears the list."""

    def answer(self, text: bytes) -> bytes:
        """The answer to the next line, without the line end: a decision, or an error that left everything as it was."""
        self.lines += 1
        if self.lines == 1:
            text = text.removeprefix(codecs.BOM_UTF8)  # with which some systems begin every text
        try:
            line = read_line(text)
            self._note_unread(line.workload, unread_fields(text))
            decision = self._decide(line)
        except InputError as error:
            return _error(str(error), self.lines, workload_of(text))
        self.decided += 1
        return msgspec.json.encode(
            {
                "now_s": line.now_s,
                "workload": line.workload,
                "replicas": decision.replicas,
                "verdict": decision.verdict.value,
                "reason": decision.reason.name,
                "text": sentence(decision),
                "trace": trace_fields(decision),
            }
        )

    def catch_up(self) -> None:
        """Make the models that were asked for. Call it between two lines, when nobody waits for an answer.

        A model takes effect at its own data time, so when this runs cannot change an answer.
        """
        for request in self.wanted_fits:
            engine.install(self.table, request.workload, self.fit(request))
        self.wanted_fits.clear()

    def _note_unread(self, workload: str, keys: list[str]) -> None:
        """Note fields that nothing reads, each once, however many lines and workloads have it."""
        for key in keys:
            if key not in self.unread and len(self.unread) < MOST_UNREAD:
                self.unread.add(key)
                self.notes.append(
                    f"line {self.lines}, {shown(workload)}: field {shown(key)} is not read; a line's fields are "
                    f"{', '.join(KEYS)}"
                )

    def _decide(self, line: Line) -> Decision:
        known = self.followed.get(line.workload)
        now_s = float(line.now_s)
        aside = None
        if known is not None and now_s < known.now_s:
            known, aside = _before_the_last(known, now_s)
        _check_time(known, now_s)
        policy, written = _policy(line, known)
        replicas = hold_replicas(line, known, policy)
        if aside is not None:
            put_back(self.table, aside)
        before = None
        if known is not None and now_s - known.now_s >= max(JUMP_S, JUMP_TICKS * policy.tick_s):
            kept = replace(known, jumped_to_s=None, before=None, fell_to_s=None)
            before = kept, taken_aside(self.table, line.workload)
        if known is None or policy is not known.policy:
            self.table.put(line.workload, compile_params(policy))
        readings = Readings(now_s, replicas, line.pods, line.gateway, line.latency, line.limits)
        result = engine.step(self.table, [(line.workload, readings)])
        self.wanted_fits += result.fits
        decision = result.decisions[0]
        self.followed[line.workload] = Followed(policy, written, now_s, replicas, decision.replicas, before=before)
        return decision


def _before_the_last(known: Followed, now_s: float) -> tuple[Followed, Aside]:
    """What stood before the last line; InputError unless that jumped ahead and a second line in a row denies it."""
    told = f"now_s: {now_s:.15g} is before {known.now_s:.15g}, the workload's last line"
    if known.before is None or now_s < known.before[0].now_s:
        raise InputError(f"{told}; time never goes backwards: send lines in their order, from {known.now_s:.15g} on")
    if known.fell_to_s is None or now_s < known.fell_to_s:
        known.fell_to_s = now_s
        jump_s = known.now_s - known.before[0].now_s
        raise InputError(
            f"{told}, which came {jump_s:.15g} s after the one before it; if its clock was wrong, go on: the next line "
            "will be used, and that one forgotten"
        )
    return known.before


def _policy(line: Line, known: Followed | None) -> tuple[Policy, bytes]:
    """The policy in force from this line on, the very object of before when nothing changed, and its JSON."""
    if line.policy_json is not None and (known is None or line.policy_json != known.policy_json):
        before = None if known is None else known.policy
        return read_policy(decode_value(line.policy_json), base=before), line.policy_json
    if known is None:
        raise InputError("policy: missing; the first line of a workload carries one")
    return known.policy, known.policy_json


def hold_replicas(line: Line, known: Followed | None, policy: Policy) -> ReplicaReading:
    """The line's replicas, with what it leaves out taken from what is known.

    `desired` is then what was last answered; before any answer, what can be seen, and at least the policy's minimum.
    `ready` is the number of pods, else what is neither starting nor missing. Of the last starts those that `desired`
    has room for and that did not become pods are still under way; the oldest are ready first.
    """
    seen: SeenReplicas = line.replicas
    pods = None if line.pods is None else len(line.pods)
    last_ready = known.replicas.ready if known else None
    ready = next((n for n in (seen.ready, pods, last_ready) if n is not None), None)
    desired = seen.desired if seen.desired is not None else known.answered if known else None
    if desired is None:
        desired = max(policy.min_replicas, (ready or 0) + len(seen.starting or ()))
    starting = seen.starting
    if starting is None:
        starting = _still_starting(known.replicas.starting if known else (), line, desired - (ready or 0))
    if ready is None:
        ready = max(0, desired - len(starting))
    return ReplicaReading(desired, ready, starting)


def _still_starting(before: tuple[StartingReplica, ...], line: Line, room: int) -> tuple[StartingReplica, ...]:
    serving = {pod.name for pod in line.pods or ()}
    left = sorted((s for s in before if s.name is None or s.name not in serving), key=lambda s: s.since_s)
    return tuple(left[max(0, len(left) - max(0, room)) :])


def _check_time(known: Followed | None, now_s: float) -> None:
    """Raise InputError once for a jump."""
    if known is None:
        return
    jump_s = now_s - known.now_s
    confirmed = known.jumped_to_s is not None and now_s >= known.jumped_to_s
    if jump_s >= GAP_S and not confirmed:
        known.jumped_to_s = now_s
        raise InputError(
            f"now_s: {now_s:.15g} is {jump_s:.15g} s after {known.now_s:.15g}, the workload's last line: the clock "
            "jumped or an hour of readings is missing; if it is right, go on: the next line will be used"
        )


def _error(message: str, number: int, workload: str | None) -> bytes:
    fields: dict[str, Any] = {"error": message.encode(errors="backslashreplace").decode(), "line": number}
    return msgspec.json.encode(fields if workload is None else fields | {"workload": workload})
