"""One line of readings as `decide` takes it: JSON text in, the line's parts out, or an InputError.

Every part may be null or missing except `now_s` and `workload`. Structs decode narrowly: another type, an unknown
field, a number outside its range is an error that names field and value; a field is never guessed from a text. Unknown
keys at the top level are a caller's own notes and pass, unless they look like a misspelled one of ours.
"""

import difflib
import re
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from autoscaler.api.faults import not_json, shown, worded
from autoscaler.api.model import MOST_INSTANT_S
from autoscaler.api.policy import MOST_REPLICAS
from autoscaler.core.types import GatewayReading, LatencyReading, Limits, PodReading, StartingReplica
from autoscaler.errors import InputError

Instant = Annotated[float, msgspec.Meta(ge=-MOST_INSTANT_S, le=MOST_INSTANT_S)]
Counter = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
"""Up to 1e15 a float counts every request exactly."""
Gauge = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Latency = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[float, msgspec.Meta(ge=0, le=MOST_REPLICAS)]
"""Replicas; a float, so that 3.0 passes, but only whole ones are taken."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
_Now = Annotated[int, msgspec.Meta(ge=-(10**11), le=10**11)] | Instant
_NULL: Final = msgspec.Raw(b"null")


class _Pod(msgspec.Struct, forbid_unknown_fields=True):
    name: Name
    ready_since_s: Instant | None = None
    waiting: Gauge | None = None
    waiting_deferred: Gauge | None = None
    running: Gauge | None = None
    requests_total: Counter | None = None
    prompt_tokens_total: Counter | None = None
    generation_tokens_total: Counter | None = None
    kv_cache_usage: Ratio | None = None


class _Start(msgspec.Struct, forbid_unknown_fields=True):
    since_s: Instant
    name: Name | None = None
    unschedulable: bool | None = None


class _Replicas(msgspec.Struct, forbid_unknown_fields=True):
    desired: Count | None = None
    ready: Count | None = None
    starting: list[_Start] | None = None


class _Gateway(msgspec.Struct, forbid_unknown_fields=True):
    queued: Gauge | None = None
    requests_total: Counter | None = None


class _Latency(msgspec.Struct, forbid_unknown_fields=True):
    queue_s_p90: Latency | None = None
    ttft_s_p90: Latency | None = None
    tpot_s_p90: Latency | None = None


class _Limits(msgspec.Struct, forbid_unknown_fields=True):
    quota_replicas: Count | None = None
    budget_replicas: Count | None = None
    budget_words: Annotated[str, msgspec.Meta(max_length=512)] | None = None


class _Whole(msgspec.Struct, forbid_unknown_fields=True):
    """A line in which nothing is amiss."""

    now_s: _Now
    workload: Name
    replicas: _Replicas | None = None
    pods: list[_Pod] | None = None
    gateway: _Gateway | None = None
    latency: _Latency | None = None
    limits: _Limits | None = None
    policy: msgspec.Raw = _NULL
    kind: msgspec.Raw = _NULL
    version: msgspec.Raw = _NULL


class SeenReplicas(msgspec.Struct, frozen=True):
    """What a line says of the target's replicas; None where it is silent."""

    desired: int | None = None
    ready: int | None = None
    starting: tuple[StartingReplica, ...] | None = None


class Line(msgspec.Struct, frozen=True):
    """One line, decoded and within its ranges. `now_s` keeps the type it was written in."""

    now_s: int | float
    workload: str
    policy_json: bytes | None
    """The policy as written, None when the line carries none."""
    replicas: SeenReplicas
    pods: tuple[PodReading, ...] | None
    gateway: GatewayReading | None
    latency: LatencyReading | None
    limits: Limits


class Head(NamedTuple):
    """What is known of a line without its readings."""

    now_s: int | float
    workload: str
    policy_json: bytes | None
    """The policy as written, None when the line carries none."""
    counted: bool
    """It tells how many replicas are desired, and how many are ready."""


class _Sound(msgspec.Struct):
    """A line that was found sound, in the types of its parts; it refuses what only `read_line` understands."""

    now_s: int | float
    workload: str
    replicas: SeenReplicas = SeenReplicas()
    pods: tuple[PodReading, ...] | None = None
    gateway: GatewayReading | None = None
    latency: LatencyReading | None = None
    limits: Limits | None = None
    policy: msgspec.Raw = _NULL


_UNLIMITED: Final = Limits()
_SOUND: Final = msgspec.json.Decoder(_Sound)
_WHOLE: Final = msgspec.json.Decoder(_Whole)
_TOP: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DECODERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "now_s": msgspec.json.Decoder(_Now),
    "workload": msgspec.json.Decoder(Name),
    "replicas": msgspec.json.Decoder(_Replicas | None),
    "pods": msgspec.json.Decoder(list[_Pod] | None),
    "gateway": msgspec.json.Decoder(_Gateway | None),
    "latency": msgspec.json.Decoder(_Latency | None),
    "limits": msgspec.json.Decoder(_Limits | None),
}
CLOCK_NOISE_S: Final = 1e-3
"""Two sums of the same float seconds may differ by less than this."""

_PARTS: Final = ("now_s", "workload", "replicas", "pods", "gateway", "latency", "limits")
KEYS: Final = ("now_s", "workload", "policy", "replicas", "pods", "gateway", "latency", "limits")
_KNOWN: Final = frozenset((*KEYS, "kind", "version"))
"""With what the lines of an audit say of themselves, which is compared with nothing: a week has 100,000 of them."""


def read_line(text: bytes, *, ahead_s: float = CLOCK_NOISE_S) -> Line:
    """The parts of one line. Raises InputError naming the field and its value for the first fault.

    A start may be ahead of the line's own instant by `ahead_s`.
    """
    whole = _checked(text, ahead_s)
    pods, gateway, latency = whole.pods, whole.gateway, whole.latency
    return Line(
        now_s=whole.now_s,
        workload=whole.workload,
        policy_json=_given(whole.policy),
        replicas=_replicas(whole.replicas),
        pods=None if pods is None else msgspec.convert(pods, tuple[PodReading, ...], from_attributes=True),
        gateway=None if gateway is None else GatewayReading(gateway.queued, gateway.requests_total),
        latency=None if latency is None else LatencyReading(*msgspec.structs.astuple(latency)),
        limits=_limits(whole.limits),
    )


def read_head(text: bytes, *, ahead_s: float = CLOCK_NOISE_S) -> Head:
    """What a line begins with, all of it checked as `read_line` does and its readings left to `read_again`."""
    whole = _checked(text, ahead_s)
    seen = whole.replicas
    counted = seen is not None and seen.desired is not None and seen.ready is not None
    return Head(whole.now_s, whole.workload, _given(whole.policy), counted)


def read_again(text: bytes, *, ahead_s: float = CLOCK_NOISE_S) -> Line:
    """What `read_line` returned for the same text, in half the time: nothing is checked twice."""
    try:
        sound = _SOUND.decode(text)
    except msgspec.DecodeError:
        return read_line(text, ahead_s=ahead_s)
    return Line(
        now_s=sound.now_s,
        workload=sound.workload,
        policy_json=_given(sound.policy),
        replicas=sound.replicas,
        pods=sound.pods,
        gateway=sound.gateway,
        latency=sound.latency,
        limits=sound.limits or _UNLIMITED,
    )


def _checked(text: bytes, ahead_s: float) -> _Whole:
    try:
        whole = _WHOLE.decode(text)
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError):
        # Decoding all at once takes a third of the time, and part by part it can be said what is amiss, if anything is.
        whole = _in_parts(text)
    if whole.replicas is not None:
        _check_replicas(whole.replicas, whole.now_s, ahead_s)
    if whole.pods is not None and len({pod.name for pod in whole.pods}) < len(whole.pods):
        _refuse_twice(whole.pods)
    if whole.limits is not None:
        _check_whole("limits.quota_replicas", whole.limits.quota_replicas)
        _check_whole("limits.budget_replicas", whole.limits.budget_replicas)
    return whole


def _given(policy: msgspec.Raw) -> bytes | None:
    written = bytes(policy)
    return None if written == b"null" else written


def _in_parts(text: bytes) -> _Whole:
    parts = _split(text)
    return _Whole(policy=parts.get("policy", _NULL), **{key: _part(parts, key) for key in _PARTS})


def unread_fields(text: bytes) -> list[str]:
    """The keys at the top level of a sound line that nothing reads, sorted."""
    return sorted(_TOP.decode(text).keys() - _KNOWN)


def workload_of(text: bytes) -> str | None:
    """The workload that a faulty line speaks of, None when that cannot be told."""
    try:
        return str(_DECODERS["workload"].decode(_TOP.decode(text)["workload"]))
    except (KeyError, UnicodeDecodeError, RecursionError, msgspec.DecodeError):
        found = re.search(rb'"workload"\s*:\s*"([^"\\]{1,512})"', text)
        return found[1].decode(errors="replace") if found else None


def decode_value(raw: bytes) -> Any:
    """Any JSON value, for models that check for themselves. Raises InputError when it is not JSON."""
    try:
        return msgspec.json.decode(raw)
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        raise InputError(f"not JSON: {error}") from error


def _split(text: bytes) -> dict[str, msgspec.Raw]:
    if not text.strip():
        raise InputError("the line is empty; give one JSON object per line")
    try:
        parts = _TOP.decode(text)
    except msgspec.ValidationError as error:
        raise InputError(f"not a JSON object: {error}; give one JSON object per line") from error
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        raise InputError(not_json(text, error)) from error
    for key in parts.keys() - _KNOWN:
        near = difflib.get_close_matches(key.lower(), KEYS, n=1, cutoff=0.75)
        if near:
            raise InputError(f"{key}: unknown field; did you mean {near[0]}?")
    return parts


def _part(parts: dict[str, msgspec.Raw], key: str) -> Any:
    """One part, decoded; None for a part that is null or missing where that is allowed."""
    raw = parts.get(key)
    if raw is None:
        if key in {"now_s", "workload"}:
            raise InputError(f"{key}: missing; every line says it")
        return None
    try:
        return _DECODERS[key].decode(raw)
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        raise InputError(worded(key, bytes(raw), str(error))) from error


def _check_replicas(given: _Replicas, now_s: float, ahead_s: float) -> None:
    for index, start in enumerate(given.starting or ()):
        if start.since_s > now_s + ahead_s:
            raise InputError(
                f"replicas.starting[{index}].since_s: {start.since_s:.15g} is after now_s {now_s:.15g}; "
                "give the instant of the order"
            )
    _check_whole("replicas.desired", given.desired)
    _check_whole("replicas.ready", given.ready)


def _replicas(given: _Replicas | None) -> SeenReplicas:
    if given is None:
        return SeenReplicas()
    starting = None
    if given.starting is not None:
        starting = tuple(StartingReplica(s.since_s, s.name, bool(s.unschedulable)) for s in given.starting)
    return SeenReplicas(_whole(given.desired), _whole(given.ready), starting)


def _refuse_twice(given: list[_Pod]) -> None:
    first: dict[str, int] = {}
    for index, pod in enumerate(given):
        if first.setdefault(pod.name, index) != index:
            raise InputError(
                f"pods[{index}].name: {shown(pod.name)} is also the name of pods[{first[pod.name]}]; give each pod once"
            )


def _limits(given: _Limits | None) -> Limits:
    if given is None or (given.quota_replicas is None and given.budget_replicas is None and given.budget_words is None):
        return _UNLIMITED
    return Limits(_whole(given.quota_replicas), _whole(given.budget_replicas), given.budget_words)


def _check_whole(field: str, value: float | None) -> None:
    if value is not None and not value.is_integer():
        raise InputError(f"{field}: {value:g} is no whole number; give 0..{MOST_REPLICAS}")


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
