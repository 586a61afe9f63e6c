"""Reads and writes one target's ``/scale``.

Enters: a target, the replica count that a decision saw, the one it wants. Leaves: what became of the patch, as far as
anybody can know. Nothing is sent without the lead, nothing is waited for beyond it, and nothing is repeated.

The patch is conditional on the count that was seen and on the object being the one that was claimed. It is not
conditional on the resourceVersion, which every change of the target's status would void.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.writing import JSON_PATCH, Requests, decoded
from autoscaler.api.claims import TargetRef
from autoscaler.ports import Fault, Patch, RefusedError

NOT_DONE: Final = frozenset(range(400, 500)) - {408}
"""Each says that nothing was written; 429 too, for it is answered before a request is looked at. 408 is a proxy's that
has waited long enough."""


@dataclass(frozen=True, slots=True)
class ScaleSeen:
    """A target's ``/scale``: what is asked for, what its controller counts (ready or not), and which object it is."""

    replicas: int
    observed_replicas: int
    selector: str
    uid: str
    resource_version: str


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct):
    replicas: int = 0
    """The API server leaves out a zero."""


class _Status(msgspec.Struct):
    replicas: int = 0
    selector: str = ""


class _Scale(msgspec.Struct):
    # Neither kind nor spec has a default: an answer of somebody else's must not read as a count of zero.
    kind: Literal["Scale"]
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_scale = msgspec.json.Decoder(_Scale)


async def read_scale(api: Requests, ref: TargetRef, timeout_s: float) -> ScaleSeen:
    """The target's scale now. Raises KubeError (status 404 where the target is gone)."""
    path = f"{ref.path}/scale"
    scale = decoded(_scale, await api.request("GET", path, timeout_s=timeout_s), f"GET {path}")
    return ScaleSeen(
        scale.spec.replicas,
        scale.status.replicas,
        scale.status.selector,
        scale.metadata.uid,
        scale.metadata.resource_version,
    )


async def patch_scale(
    api: Requests,
    ref: TargetRef,
    *,
    seen_replicas: int,
    replicas: int,
    may_write: Callable[[], bool],
    remaining_s: Callable[[], float],
    timeout_s: float,
) -> Patch:
    """Ask for `replicas` where `seen_replicas` are asked for now: APPLIED, or CONFLICT and nothing was written.

    `remaining_s` is how long the lead lasts; the call ends with it. Raises RefusedError, with the server's words, when
    what was asked was not written for another reason, and KubeError when nobody knows whether it was.
    """
    call = f"PATCH {ref.path}/scale"
    within_s = min(timeout_s, remaining_s())
    if within_s <= 0 or not may_write():
        raise RefusedError(
            Fault.DENIED,
            f"{call}: not sent: this process does not lead, all is frozen, or what asked for it has changed",
        )
    try:
        answer = await api.request(
            "PATCH",
            f"{ref.path}/scale",
            body=msgspec.json.encode(_operations(ref.uid, seen_replicas, replicas)),
            content_type=JSON_PATCH,
            timeout_s=within_s,
            admit=may_write,
        )
    except KubeError as error:
        if not error.sent:
            raise _refusal(error) from error
        return await _after(error, api, ref, seen_replicas, timeout_s)
    kept = decoded(_scale, answer, call).spec.replicas
    if kept != replicas:
        raise RefusedError(
            Fault.INVALID, f"{call}: {replicas} replicas asked for, {kept} kept: something changes what is written"
        )
    return Patch.APPLIED


def _operations(uid: str, seen_replicas: int, replicas: int) -> list[dict[str, Any]]:
    """The JSON Patch (RFC 6902)."""
    same: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": uid}]
    if seen_replicas == 0:
        # A zero is left out of the document, so that there is no /spec/replicas to test or to replace.
        same.append({"op": "test", "path": "/spec", "value": {}})
        return [*same, {"op": "add", "path": "/spec/replicas", "value": replicas}]
    same.append({"op": "test", "path": "/spec/replicas", "value": seen_replicas})
    return [*same, {"op": "replace", "path": "/spec/replicas", "value": replicas}]


async def _after(error: KubeError, api: Requests, ref: TargetRef, seen_replicas: int, timeout_s: float) -> Patch:
    """What an answer other than 2xx means. Raises as `patch_scale` does."""
    if error.status not in NOT_DONE and not error.not_admitted:
        raise error
    if error.status not in {409, 422}:
        raise _refusal(error) from error
    # A failed test and a count that the server does not allow are both 422 Invalid, an object that is written all the
    # time and a webhook's no may both be 409: only what another count explains is a conflict. Taken for one, the others
    # would be asked again and again, and nobody would see the server's words.
    try:
        now = await read_scale(api, ref, timeout_s)
    except KubeError as later:
        if later.status == 404:
            raise _refusal(later) from later
        return Patch.CONFLICT
    if now.uid != ref.uid:
        raise RefusedError(Fault.INVALID, f"PATCH {ref.path}/scale: the target was deleted and made anew") from error
    if now.replicas != seen_replicas:
        return Patch.CONFLICT
    if error.status == 409:  # it may pass: who else writes the object may be done in a second
        raise RefusedError(Fault.OUTDATED, str(error)) from error
    raise _refusal(error) from error


def _refusal(error: KubeError) -> RefusedError:
    return RefusedError(error.fault, str(error))
