"""Specs of ScalingPolicies with what becomes of them, for our own reader and for a real API server alike."""

from typing import Any, Final

TARGET: Final = {"targetRef": {"name": "chat"}}


def spec(**fields: Any) -> dict[str, Any]:
    """A sound spec with `fields`, in camelCase."""
    return {**TARGET, **fields}


def event(**fields: Any) -> dict[str, Any]:
    """A spec with one known event, sound but for `fields`; None leaves a field out."""
    window = {"from": "2026-11-28T08:00:00+01:00", "to": "2026-11-28T20:00:00+01:00", "floor": 4, **fields}
    return spec(events=[{name: value for name, value in window.items() if value is not None}])


SOUND: Final[dict[str, dict[str, Any]]] = {
    "a target alone": spec(),
    "every field": spec(
        targetRef={"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "chat-70b"},
        minReplicas=0, maxReplicas=100_000, slo={"waitS": 8, "ttftS": 2.5, "tpotS": 0.05}, tickS=0.2, warmupPriorS=7200,
        targetRatio=0.5, idleAfterS=0.5, mode="Paused", modeUntil="2026-11-28T08:00:00.25Z", modeAfter="Active",
        tier="critical", engine="custom", metrics={"waiting": 'q{state="wait"}', "kvPercent": True}, metricsPort=8000,
        metricsPath="/v1/metrics?full=1", gateway="main", prometheus="main", gpusPerReplica=16,
        events=[{"from": "2026-11-28T08:00:00Z", "to": "2026-11-28T08:00:01Z", "floor": 0, "ceiling": 0}],
    ),
    "a hundred events": spec(events=event()["events"] * 100),
    "a window across offsets": event(**{"from": "2026-11-28T08:00:00+01:00", "to": "2026-11-28T07:00:01Z"}),
    "a target of the core group": spec(targetRef={"apiVersion": "v1", "kind": "ReplicationController", "name": "a.b"}),
}  # fmt: skip

LONG: Final = "a" * 300

FAULTY: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    # name: (spec, what our reader says, what the API server says)
    "no target": ({"minReplicas": 1}, "spec.targetRef: missing", "spec.targetRef: Required value"),
    "a target without name": (
        {"targetRef": {"kind": "Deployment"}}, "spec.targetRef.name: missing", "spec.targetRef.name: Required value"),
    "a target's kind in small letters": (
        {"targetRef": {"kind": "deployment", "name": "a"}}, "must be a kind such as Deployment", "targetRef.kind"),
    "a target's name that is none": (
        {"targetRef": {"name": "Chat"}}, "spec.targetRef.name: 'Chat' is out of range", "spec.targetRef.name"),
    "a minimum above the maximum": (
        spec(minReplicas=5, maxReplicas=2), "spec.minReplicas: 5 is above spec.maxReplicas: 2",
        "minReplicas is above maxReplicas"),
    "a minimum above the default maximum": (
        spec(minReplicas=101), "spec.minReplicas: 101 is above spec.maxReplicas: 100",
        "minReplicas is above maxReplicas"),
    "a negative minimum": (
        spec(minReplicas=-1), "spec.minReplicas: -1 is out of range", "should be greater than or equal to 0"),
    "a fraction of a replica": (
        spec(minReplicas=1.5), "it must be a whole number, 0..100000", "minReplicas"),
    "replicas in words": (spec(maxReplicas="ten"), "'ten' is out of range", "maxReplicas"),
    "no objective": (
        spec(slo={}), "spec.slo: no objective; give one of waitS, ttftS, tpotS", "no objective; give one of waitS"),
    "an objective of nothing": (
        spec(slo={"waitS": 0}), "it must be a number, 0.001..3600 s", "it must be a number, 0.001..3600 s"),
    "an objective of next to nothing": (spec(slo={"ttftS": 0.0009}), "0.001..3600 s", "spec.slo.ttftS"),
    "a tick of nothing": (spec(tickS=0), "0.2..300 s", "spec.tickS: Invalid value: 0: it must be a number, 0.2..300 s"),
    "a ratio of nothing": (spec(targetRatio=0), "at least 0.5 and below 1", "at least 0.5 and below 1"),
    "a ratio of one": (spec(targetRatio=1), "at least 0.5 and below 1", "spec.targetRatio"),
    "a warm-up of nothing": (spec(warmupPriorS=0), "above 0 and at most 7200 s", "should be greater than 0"),
    "an unknown mode": (spec(mode="active"), "one of Shadow, Active, Paused", "Unsupported value"),
    "an unknown tier": (spec(tier="vip"), "one of critical, normal, scavenger", "Unsupported value"),
    "an unknown engine": (spec(engine="vLLM"), "one of vllm, sglang", "Unsupported value"),
    "an end of no mode": (
        spec(modeUntil="2026-11-28T08:00:00Z"), "modeUntil is given without mode", "modeUntil is given without mode"),
    "a mode after no end": (
        spec(mode="Paused", modeAfter="Active"), "modeAfter is given without modeUntil",
        "modeAfter is given without modeUntil"),
    "an end without offset": (
        spec(mode="Paused", modeUntil="2026-11-28T08:00:00"), "a date and time with offset", "spec.modeUntil"),
    "an end that is a day": (
        spec(mode="Paused", modeUntil="2026-11-28"), "a date and time with offset", "spec.modeUntil"),
    "a custom engine without metrics": (
        spec(engine="custom"), "metrics are missing though engine is custom", "metrics are given exactly when"),
    "metrics of a known engine": (
        spec(metrics={"waiting": "q"}), "metrics are given though engine is vllm", "metrics are given exactly when"),
    "metrics that say nothing of demand": (
        spec(engine="custom", metrics={"kvCacheUsage": "kv"}), "give one of waiting, running, requestsTotal",
        "give one of waiting, running, requestsTotal"),
    "a metric that is no name": (
        spec(engine="custom", metrics={"waiting": "1 or vector(1)"}), "a metric's name", "spec.metrics.waiting"),
    "a port beyond the last": (spec(metricsPort=65536), "1..65535", "should be less than or equal to 65535"),
    "a path that is a URL": (spec(metricsPath="http://x/metrics"), "begins with /", "spec.metricsPath"),
    "a gateway that is a URL": (spec(gateway="http://10.0.0.1"), "never a URL", "spec.gateway"),
    "a Prometheus that is a URL": (spec(prometheus="http://10.0.0.1:9090"), "never a URL", "spec.prometheus"),
    "a name that is too long": (spec(gateway=LONG), "never a URL", "Too long: may not be more than 63"),
    "too many GPUs in a replica": (spec(gpusPerReplica=1025), "0..1024", "less than or equal to 1024"),
    "an event that ends before it begins": (
        event(to="2026-11-28T07:59:59+01:00"), "spec.events[0]: from", "from is not before to"),
    "an event of no time, in two offsets": (
        event(to="2026-11-28T07:00:00Z"), "is not before to", "from is not before to"),
    "an event without end": (event(to=None), "spec.events[0].to: missing", "spec.events[0].to: Required value"),
    "an event without floor and ceiling": (
        event(floor=None), "no floor and no ceiling", "no floor and no ceiling"),
    "a floor above the ceiling": (event(ceiling=3), "floor 4 is above ceiling 3", "floor is above ceiling"),
    "a hundred and one events": (
        spec(events=event()["events"] * 101), "a list of windows, at most 100", "Too many: 101: must have at most 100"),
}  # fmt: skip
