"""Writes for batch admission: one patch that lets a gang start where it was proven to fit, one that stops it.

Enters: a piece of work as it was last seen, where it goes. Leaves: the object as the server answered, refused with the
server's words, or unknown. Every patch tests the version it was made for, so that whoever edited the object meanwhile
is never written over. `may_write` is asked when a request is about to leave. Verbs: patch on the kinds of work,
and on the status of batchqueues.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.batch_aliases import Aliases
from autoscaler.adapters.kube.batch_kinds import KINDS
from autoscaler.adapters.kube.batch_nodes import HOSTNAME
from autoscaler.adapters.kube.batch_objects import QueuedPod, WorkPodSpec
from autoscaler.adapters.kube.batch_trainer import OVERRIDES, held_overrides, is_held, without_ours
from autoscaler.adapters.kube.batch_widths import WIDTH, note
from autoscaler.adapters.kube.batch_work import AFFINITY, HOSTS, LOAN, PLACEMENT, Put, Work, WorkSet
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.adapters.kube.scope import GROUP, VERSION
from autoscaler.adapters.kube.writing import JSON_PATCH, Requests, decoded
from autoscaler.ports import Clock

CALL_S: Final = 10.0
CHANGED: Final = frozenset({404, 409, 422})
"""The object is not what it was: gone, or another version than the patch was made for."""

PASSING: Final = frozenset({404, 408, 409, 429})
"""Refusals that say nothing of whether the same will be refused again."""

DROPPED: Final = (
    "the API server did not keep spec.podTemplateOverrides, by which its pods are held to nodes; "
    "use a Trainer of a version that has them, such as 2.1"
)

UNTRIED: Final = "does not support dry run"
"""The words of an API server that cannot ask a webhook what it would say (KEP-576)."""

_decoders: Final = {name: msgspec.json.Decoder(kind.form) for name, kind in KINDS.items()}
_text: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a patch: the work as it is then, or the words of a refusal or of a silence."""

    became: Became
    work: Work | None = None
    words: str = ""
    changed: bool = False
    """Refused because the object was not what it had been: its next version is on its way."""
    denied: bool = False
    """Refused by the server, or a webhook, as it stands: not for want of time, nor because it came too often."""
    version: str = ""
    """The version that a patch before the refused one made of it, empty where there was none."""
    pods: tuple[QueuedPod, ...] = ()
    """Pods that were let in, as they are then, where they are the work; with words, others of them were not."""


class BatchWriter:
    """Writes for one process."""

    def __init__(
        self, api: Requests, clock: Clock, may_write: Callable[[], bool], aliases: Aliases | None = None
    ) -> None:
        self._aliases = aliases or Aliases()
        self._api = api
        self._clock = clock
        self._may_write = may_write

    async def admit(
        self,
        work: Work,
        puts: Sequence[Put],
        hostnames: Mapping[str, str],
        tolerated: Sequence[str],
        loan: Mapping[str, Any] | None = None,
    ) -> Written:
        """Let a gang start where it was put, each set on its own nodes, with as many pods as were put there.

        `hostnames` are by node; `tolerated` are keys of taints that its pods shall put up with; `loan` is what its
        annotation says of a loan.
        """
        changes = [
            *self._tests(work, suspended=True),
            {"op": "replace", "path": work.suspend_at, "value": False},
            *_annotate(work, puts, loan),
            *_widen(work, _pods(work, puts)),
        ]
        if work.overrides is not None:
            return await self._admit_by_overrides(work, changes, held_overrides(work, puts, hostnames, tolerated))
        own = work.affinities
        for at in work.placed:
            each = work.sets[at]
            hosts = sorted({hostnames[put.node] for put in puts if put.pod_set == at})
            changes += [_hold(each, own[at], hosts), *tolerate(each.at, each.template, tolerated)]
        return await self._patch(work, changes)

    async def _admit_by_overrides(
        self, work: Work, changes: Sequence[Mapping[str, Any]], overrides: Sequence[Mapping[str, Any]]
    ) -> Written:
        """Let a gang start whose templates may be overridden only while it is suspended: that is written first.

        By itself it does nothing, so that one that was written and was not followed by a start is written over. It is
        taken back where the start was refused as such: nobody knows when, or whether, the next one is written.
        """
        held = [each for each in changes if each["op"] == "test" or each["path"] != work.suspend_at]
        held.append({"op": "add", "path": OVERRIDES, "value": overrides})
        first = await self._patch(work, held)
        if first.work is None:
            return first
        now = first.work
        if not is_held(now, overrides):
            return Written(Became.REFUSED, None, DROPPED)
        starts = [*self._tests(now, suspended=True), {"op": "replace", "path": work.suspend_at, "value": False}]
        second = await self._patch(replace(work, version=now.version), starts)
        if second.became is not Became.REFUSED or second.changed:
            return replace(second, version=now.version)
        back = await self._patch(now, [*self._tests(now, suspended=True), without_ours(now)])
        words = f"{second.words}; that its pods are held to nodes was not taken back: {back.words}"
        return second if back.became is Became.DONE else replace(second, words=words)

    async def try_out(self, work: Work) -> Written:
        """Have the server say whether it would let a gang start, wherever that were; nothing is changed."""
        starts = [*self._tests(work, suspended=True), {"op": "replace", "path": work.suspend_at, "value": False}]
        tried = await self._tried(work, starts)
        return Written(Became.DONE) if UNTRIED in tried.words else tried

    async def _tried(self, work: Work, changes: Sequence[Mapping[str, Any]]) -> Written:
        try:
            await self.send(work.ref.path, changes, tries=True)
        except KubeError as error:
            return refused(error)
        return Written(Became.DONE)

    async def stop(self, work: Work, *, tries: bool = False) -> Written:
        """Stop a gang: its pods are told to end, and it is as wide as it was written. With `tries` the server only says
        whether it would take that; where it cannot say, it does not."""
        stop: dict[str, Any] = {"op": "add", "path": work.suspend_at, "value": True}  # it need not be there yet
        if work.suspend_in:
            stop = {"op": "add", "path": work.suspend_in, "value": {work.suspend_at.rpartition("/")[2]: True}}
        changes = [*self._tests(work, suspended=False), stop]
        if tries:
            return await self._tried(work, changes)
        changes += _gone(work, LOAN)  # it holds nothing on loan once its pods are gone
        back = _widen(work, None if work.width is None else work.width.written)
        kept = _gone(work, WIDTH) if work.width is not None else []
        done = await self._patch(work, [*changes, *back, *kept])
        if back and done.became is Became.REFUSED:
            # Whoever forbids that is not to keep it from being stopped; the note says still what was written.
            done = await self._patch(work, changes)
        return done

    async def status(self, queue: str, status: Mapping[str, Any]) -> Written:
        """Replace the status of a BatchQueue; ours is the only one there is."""
        path = f"/apis/{GROUP}/{VERSION}/batchqueues/{queue}/status"
        try:
            await self.send(path, [{"op": "add", "path": "/status", "value": status}])
        except KubeError as error:
            return refused(error)
        return Written(Became.DONE)

    def _tests(self, work: Work, *, suspended: bool) -> list[dict[str, Any]]:
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": work.version}
        return [version, {"op": "test", "path": work.suspend_at, "value": suspended}] if suspended else [version]

    async def _patch(self, work: Work, changes: Sequence[Mapping[str, Any]]) -> Written:
        path, kind = work.ref.path, work.ref.kind
        try:
            answer = await self.send(path, changes)
            meant = self._aliases.read(decoded(_decoders[kind], answer, f"PATCH {path}"))
            found = KINDS[kind].read(meant, self._clock.now())
        except KubeError as error:
            return refused(error)
        if found is not None and work.overrides is not None:
            found = replace(found, sets=work.sets, says=work.says)  # what its runtime makes of it does not come along
        return Written(Became.DONE, found)

    async def send(self, path: str, changes: Sequence[Mapping[str, Any]], *, tries: bool = False) -> Answer:
        """Send a patch, or only have it tried out. Raises KubeError."""
        return await self._api.request(
            "PATCH", path, query=(("dryRun", "All"),) if tries else (), body=_text.encode(changes),
            content_type=JSON_PATCH, timeout_s=CALL_S, admit=self._may_write,
        )  # fmt: skip


def held_to(affinity: Mapping[str, Any] | None, hostnames: Sequence[str]) -> dict[str, Any]:
    """The affinity, with the pods held to these hosts besides; terms are alternatives, so that each gets it."""
    ours = {"key": HOSTNAME, "operator": "In", "values": sorted(set(hostnames))}
    all_of = dict(affinity or {})
    node = dict(all_of.get("nodeAffinity") or {})
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or [{}]
    mine = [{**term, "matchExpressions": [*(term.get("matchExpressions") or ()), ours]} for term in terms]
    node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": mine}
    return {**all_of, "nodeAffinity": node}


def _hold(each: WorkSet, own: Mapping[str, Any] | None, hosts: Sequence[str]) -> dict[str, Any]:
    """Hold the pods of a set to these hosts: by affinity, or by what a policy makes one of when a pod is made."""
    if each.notes is None:
        return {"op": "add", "path": f"{each.at}/affinity", "value": held_to(own, hosts)}
    notes = {**(each.notes.kept or {}), HOSTS: ",".join(hosts)}
    if each.notes.kept is None:
        return {"op": "add", "path": each.notes.at, "value": {"annotations": notes}}
    return {"op": "add", "path": f"{each.notes.at}/annotations", "value": notes}


def _annotate(work: Work, puts: Sequence[Put], loan: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    kept = dict(work.annotations) | {PLACEMENT: _text.encode(list(puts)).decode()}
    kept.pop(AFFINITY, None)
    kept.pop(LOAN, None)
    kept.pop(WIDTH, None)
    pods = _pods(work, puts)
    if work.width is not None and pods is not None and (chosen := note(work.width, pods)) is not None:
        kept[WIDTH] = chosen
    if loan is not None:
        kept[LOAN] = _text.encode(loan).decode()
    if any(each is not None for each in work.affinities):
        kept[AFFINITY] = _text.encode(work.affinities).decode()
    return [{"op": "add", "path": "/metadata/annotations", "value": kept}]


def _gone(work: Work, name: str) -> list[dict[str, Any]]:
    """Take an annotation away that is there."""
    path = f"/metadata/annotations/{name.replace('/', '~1')}"
    return [{"op": "remove", "path": path}] if name in work.annotations else []


def _pods(work: Work, puts: Sequence[Put]) -> int | None:
    """With how many pods of its elastic set a gang was put somewhere; None where it has no such set."""
    return None if work.width is None else sum(put.pods for put in puts if put.pod_set == work.width.pod_set)


def _widen(work: Work, pods: int | None) -> list[dict[str, Any]]:
    """Have the object say so many pods, where it says another number."""
    if work.width is None or pods is None or pods == work.width.stands:
        return []
    return [{"op": "add", "path": path, "value": pods} for path in work.width.paths]


def tolerate(at: str, pod: WorkPodSpec, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Put up with taints of these keys besides. What its author wrote is not sent: a part that is not read would go.

    `at` is where the specification of the pod stands.
    """
    given = pod.tolerations
    missing = [_tolerates(key) for key in keys if not any(each.covers(key) for each in given)]
    if not given:
        return [{"op": "add", "path": f"{at}/tolerations", "value": missing}] if missing else []
    return [{"op": "add", "path": f"{at}/tolerations/-", "value": each} for each in missing]


def _tolerates(key: str) -> dict[str, str]:
    return {"key": key, "operator": "Exists"}


def refused(error: KubeError) -> Written:
    """What became of a patch that the server did not take, or did not answer."""
    lost = error.sent and (error.status is None or error.status >= 500) and not error.not_admitted
    denied = error.status is not None and 400 <= error.status < 500 and error.status not in PASSING
    became = Became.UNKNOWN if lost else Became.REFUSED
    return Written(became, None, str(error), error.status in CHANGED, denied=denied)
