"""Writes a pause into the cluster: on the ScalingPolicy of a workload, else on the workload itself, or the freeze.

Enters: a client and a wish. Leaves: what was changed. Each object is read once and written once, only if it is still as
it was read. What stood there before is kept in an annotation of our own and put back by the resume: where nobody had
chosen a mode none is put back, and the installation's default holds.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.scope import FREEZE_KEY, GROUP, VERSION
from autoscaler.adapters.kube.writing import MERGE_PATCH
from autoscaler.api.annotations import PREFIX, SCALE
from autoscaler.errors import HeadroomError, InputError

if TYPE_CHECKING:
    from autoscaler.adapters.kube.api import KubeApi
    from autoscaler.cli.pause import Wish
    from autoscaler.settings.model import Settings

BEFORE: Final = "pause.headroom.dev/before"
"""Mode, end and mode after as they were before a pause, as JSON. It is no setting, so it does not begin like one."""

_IN_POLICY: Final = ("mode", "modeUntil", "modeAfter")
_IN_ANNOTATIONS: Final = (f"{PREFIX}mode", f"{PREFIX}mode-until", f"{PREFIX}mode-after")

_PAUSES: Final = frozenset({"Paused", "PausedScaleIn", "PausedScaleOut"})

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """What was changed, and how a person is told."""

    object: str
    mode: str | None
    until: str | None
    words: str


@dataclass(frozen=True, slots=True)
class _Found:
    """The object that carries the policy of a workload."""

    path: str
    words: str
    policy: bool
    content: Fields

    @property
    def annotations(self) -> Fields:
        return dict(self.content["metadata"].get("annotations") or {})

    @property
    def modes(self) -> Fields:
        """Mode, end and mode after as they stand, None where they are not given."""
        keys, fields = (
            (_IN_POLICY, self.content.get("spec") or {}) if self.policy else (_IN_ANNOTATIONS, self.annotations)
        )
        return {key: fields.get(key) for key in keys}


async def change_mode(api: "KubeApi", settings: "Settings", workload: str, kind: str | None, wish: "Wish") -> Change:
    """Write a pause, or what was before it. Raises InputError where the workload is not scaled, KubeError."""
    namespace, _, name = workload.partition("/")
    if not namespace or not name or "/" in name:
        raise InputError(f"{workload!r}: give the workload as NAMESPACE/NAME")
    found = await _find(api, settings, namespace, name, kind)
    (mode_key, until_key, after_key), now = tuple(found.modes), found.modes
    kept = _kept(found)
    if wish.mode is None:
        if kept is None and now[mode_key] not in _PAUSES:
            said = f"{workload} is not paused: {now[mode_key] or 'the default mode'}, by {found.words}"
            return Change(found.words, now[mode_key], now[until_key], said)
        chosen = dict.fromkeys(now) if kept is None else kept
        await _write(api, found, chosen, None)
        said = f"{workload}: {chosen[mode_key] or 'the default mode'} again, by {found.words}"
        return Change(found.words, chosen[mode_key], chosen[until_key], said)
    # A pause on top of a pause keeps what was there before the first one.
    before = kept if kept is not None else dict.fromkeys(now) if now[mode_key] in _PAUSES else now
    if wish.until is not None and before[until_key] is not None:
        raise InputError(
            f"{workload}: its mode {before[mode_key]} ends at {before[until_key]} by itself, so that --for could not "
            "put it back; pause without --for, and --resume"
        )
    chosen = {mode_key: wish.mode, until_key: wish.until, after_key: before[mode_key] if wish.until else None}
    await _write(api, found, chosen, before)
    end = f"until {wish.until}" if wish.until else f"until `headroom pause {workload} --resume`"
    return Change(found.words, wish.mode, wish.until, f"{workload}: {wish.mode} {end}, by {found.words}")


async def freeze(api: "KubeApi", settings: "Settings", wish: "Wish") -> Change:
    """Freeze everything, or end the freeze. Raises KubeError."""
    collection = f"/api/v1/namespaces/{settings.namespace}/configmaps"
    words = f"ConfigMap {settings.namespace}/{settings.freeze_config_map}"
    value = None if wish.mode is None else wish.reason or "by headroom pause --cluster"
    content = {"data": {FREEZE_KEY: value}}
    try:
        await api.request(
            "PATCH", f"{collection}/{settings.freeze_config_map}", body=_json(content), content_type=MERGE_PATCH
        )
    except KubeError as error:
        if error.status != 404:
            raise
        if value is not None:
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": settings.freeze_config_map}}
            await api.request("POST", collection, body=_json(made | content))
    if value is None:
        return Change(words, None, None, f"nothing is frozen any more ({words})")
    return Change(words, "frozen", None, f"everything is frozen until `headroom pause --cluster --resume` ({words})")


async def _find(api: "KubeApi", settings: "Settings", namespace: str, name: str, kind: str | None) -> _Found:
    """The ScalingPolicy of the workload, else the annotated target itself. Raises InputError for none or several."""
    found = [p for p in await _policies(api, namespace) if _aims_at(p, name, kind)]
    if not found:
        found = await _annotated(api, settings, namespace, name, kind)
    if not found:
        raise InputError(
            f"{namespace}/{name}: no ScalingPolicy names it and no such target has {SCALE}; `headroom status` lists "
            "what is scaled. A ScaledObject is paused by KEDA's own annotation, autoscaling.keda.sh/paused"
        )
    if len(found) > 1:
        raise InputError(f"{namespace}/{name}: several: {', '.join(one.words for one in found)}; give --kind")
    return found[0]


async def _policies(api: "KubeApi", namespace: str) -> list[_Found]:
    root = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/scalingpolicies"
    content = await _read(api, root)
    return [
        _Found(f"{root}/{one['metadata']['name']}", f"ScalingPolicy {one['metadata']['name']}", True, one)
        for one in (content or {}).get("items", ())
    ]


def _aims_at(policy: _Found, name: str, kind: str | None) -> bool:
    target = policy.content.get("spec", {}).get("targetRef") or {}
    return target.get("name") == name and kind in {None, target.get("kind", "Deployment")}


async def _annotated(api: "KubeApi", settings: "Settings", namespace: str, name: str, kind: str | None) -> list[_Found]:
    found = []
    for one in settings.kinds:
        if kind in {None, one.kind}:
            root = f"/apis/{one.group}/{one.version}" if one.group else f"/api/{one.version}"
            path = f"{root}/namespaces/{namespace}/{one.resource}/{name}"
            content = await _read(api, path)
            if content is not None:
                found.append(_Found(path, f"{one.kind} {name}", False, content))
    return [one for one in found if one.annotations.get(SCALE) == "true"]


async def _read(api: "KubeApi", path: str) -> Fields | None:
    """What stands at a path; None where nothing does."""
    try:
        answer = await api.request("GET", path)
    except KubeError as error:
        if error.status == 404:
            return None
        raise
    try:
        return msgspec.json.decode(answer.body, type=Fields)
    except msgspec.DecodeError as error:
        raise HeadroomError(f"GET {path}: not an object: {error}") from error


def _kept(found: _Found) -> Fields | None:
    """What stood there before a pause that `pause` wrote; None where there was none, or it cannot be read."""
    try:
        kept = msgspec.json.decode(found.annotations.get(BEFORE, ""), type=dict[str, str])
    except msgspec.DecodeError:
        return None
    return {key: kept.get(key) for key in found.modes}


async def _write(api: "KubeApi", found: _Found, chosen: Fields, before: Fields | None) -> None:
    given = None if before is None else {key: value for key, value in before.items() if value is not None}
    annotations = {BEFORE: None if given is None else _json(given).decode()} | ({} if found.policy else chosen)
    version = found.content["metadata"].get("resourceVersion")
    patch: Fields = {"metadata": {"resourceVersion": version, "annotations": annotations}}
    if found.policy:
        patch["spec"] = chosen
    try:
        await api.request("PATCH", found.path, body=_json(patch), content_type=MERGE_PATCH)
    except KubeError as error:
        if error.status == 409:
            raise HeadroomError(f"{found.words}: somebody changed it at the same moment; try again") from error
        raise


def _json(content: Fields) -> bytes:
    return msgspec.json.encode(content)
