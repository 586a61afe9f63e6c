"""The policy of one live workload: the policy of `decide` lines, and what only a cluster has.

Enters: the spec of a ScalingPolicy as JSON. Leaves: a frozen model, or an InputError naming field, value and legal
range. Endpoints are names that an administrator defined in settings: a policy holds no URL and no path of a file.
"""

from enum import Enum
from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from autoscaler.api.lines import decode_value
from autoscaler.api.model import Instant, Model, cel, instant_spellings, spelled
from autoscaler.api.model_faults import first_fault, respelled
from autoscaler.api.modes import Mode, Tier
from autoscaler.api.policy import Policy, compile_params
from autoscaler.api.schema import Spelling
from autoscaler.errors import InputError

MOST_GPUS_PER_REPLICA: Final = 1024


class Engine(Enum):
    """The serving engine, which says by what names its metrics go."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRITON = "triton"
    TRTLLM = "trtllm"
    TGI = "tgi"
    CUSTOM = "custom"


Path = Annotated[
    str, spelled(r"^/[A-Za-z0-9._~/?&=%:@+,;-]*$", 256, "a path of at most 256 characters that begins with /")
]
EndpointName = Annotated[
    str,
    spelled(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 63, "a name from the administrator's settings (a-z, 0-9, -), never a URL"
    ),
]
_LABEL: Final = r' *[a-zA-Z_][a-zA-Z0-9_]* *= *"[^"\\{}\n]*" *'
MetricName = Annotated[
    str,
    spelled(
        rf"^[a-zA-Z_:][a-zA-Z0-9_:]*(\{{({_LABEL},)*({_LABEL})?\}})?$",
        256,
        'a metric\'s name, or one with labels: my_queue{state="waiting"}',
    ),
]
ApiVersion = Annotated[
    str, spelled(r"^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?v[a-z0-9]+$", 253, "group/version such as apps/v1")
]
Kind = Annotated[str, spelled(r"^[A-Z][A-Za-z0-9]*$", 63, "a kind such as Deployment")]
ObjectName = Annotated[str, spelled(r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", 253, "an object's name (a-z, 0-9, - and .)")]


class TargetReference(Model):
    """The object whose replicas are scaled; it lives in the policy's namespace and serves /scale."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-map-type": "atomic",
            **cel(("self == oldSelf", "targetRef cannot be changed; delete the policy and make another")),
        }
    )

    api_version: ApiVersion = "apps/v1"
    """Group and version of the target."""
    kind: Kind = "Deployment"
    """Kind of the target; one of those that the administrator lets Headroom scale."""
    name: ObjectName
    """Name of the target."""


class MetricNames(Model):
    """What the metrics of a custom engine are called: a name, or a name with labels."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "has(self.waiting) || has(self.running) || has(self.requestsTotal)",
                "nothing to decide on; give one of waiting, running, requestsTotal",
            )
        )
    )

    waiting: MetricName | None = None
    """Requests that wait in the engine for a free slot."""
    waiting_deferred: MetricName | None = None
    """Requests that wait for another cause, which more replicas do not cure."""
    running: MetricName | None = None
    """Requests being served."""
    requests_total: MetricName | None = None
    """Counter of requests completed."""
    prompt_tokens_total: MetricName | None = None
    """Counter of prompt tokens read."""
    generation_tokens_total: MetricName | None = None
    """Counter of tokens generated."""
    kv_cache_usage: MetricName | None = None
    """The share of the KV cache that is in use."""
    queue_s_p90: MetricName | None = None
    """Histogram of seconds in the queue, named without _bucket."""
    ttft_s_p90: MetricName | None = None
    """Histogram of seconds to the first token, named without _bucket."""
    tpot_s_p90: MetricName | None = None
    """Histogram of seconds per output token, named without _bucket."""
    kv_percent: bool = False
    """Whether the share of the KV cache is given as 0..100 instead of 0..1."""

    @model_validator(mode="after")
    def _can_carry_a_decision(self) -> Self:
        if self.waiting is None and self.running is None and self.requests_total is None:
            raise ValueError("nothing to decide on; give one of waiting, running, requests_total")
        return self

    def named(self) -> dict[str, str]:
        """The metric of each signal that has one."""
        return self.model_dump(exclude={"kv_percent"}, exclude_none=True)


class ScalingPolicySpec(Policy):
    """How one workload is scaled: its target, bounds, objective, and what Headroom may do."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "self.minReplicas <= self.maxReplicas",
                "minReplicas is above maxReplicas; lower the minimum or raise the maximum",
            ),
            (
                "!has(self.modeUntil) || has(self.mode)",
                "modeUntil is given without mode; give the mode that ends then",
            ),
            (
                "!has(self.modeAfter) || has(self.modeUntil)",
                "modeAfter is given without modeUntil; give the time from which it holds",
            ),
            (
                "(self.engine == 'custom') == has(self.metrics)",
                "metrics are given exactly when engine is custom; change one of the two",
            ),
        )
    )

    target_ref: TargetReference | None = None
    """The object whose replicas are scaled; it lives in the policy's namespace and serves /scale. It cannot be changed:
    delete the policy and make another instead."""
    mode: Annotated[Mode, Field(strict=False)] | None = None
    """What Headroom may do: Active acts, Shadow only decides and records, Paused leaves the replicas alone,
    PausedScaleIn never takes away, PausedScaleOut never adds. Left out, it is the installation's default mode."""
    mode_until_s: Annotated[Instant | None, Field(validation_alias=instant_spellings("mode_until_s"))] = None
    """When mode ends: a date and time with offset, such as 2026-11-28T08:00:00+01:00. From then on modeAfter holds."""
    mode_after: Annotated[Mode, Field(strict=False)] | None = None
    """The mode from modeUntil on. Left out, it is the installation's default mode."""
    tier: Annotated[Tier, Field(strict=False)] = Tier.NORMAL
    """Who gives way when GPUs are short: scavenger before normal, normal before critical."""
    engine: Annotated[Engine, Field(strict=False)] = Engine.VLLM
    """The serving engine in the pods, by which their metrics are read."""
    metrics: MetricNames | None = None
    """What the metrics are called; given exactly when engine is custom. Each is a name, or a name with labels, as in
    my_queue{state="waiting"}; waiting, running or requestsTotal is among them."""
    metrics_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The pods' port with metrics. Left out, it is the container port named metrics or http, else the first one."""
    metrics_path: Path = "/metrics"
    """The path of the metrics page on the pods."""
    gateway: EndpointName | None = None
    """The gateway in front of the pods, by its name in the administrator's settings; it tells what waits at zero."""
    prometheus: EndpointName | None = None
    """The Prometheus that is asked when pods cannot be, by its name in the administrator's settings."""
    gpus_per_replica: Annotated[int, Field(ge=0, le=MOST_GPUS_PER_REPLICA)] | None = None
    """GPUs that one replica holds (0..1024). Left out, they are counted in the pod template."""

    @model_validator(mode="after")
    def _mode_ends_soundly(self) -> Self:
        if self.mode_until_s is not None and self.mode is None:
            raise ValueError("mode_until_s is given without mode; give the mode that ends then")
        if self.mode_after is not None and self.mode_until_s is None:
            raise ValueError("mode_after is given without mode_until_s; give the time from which it holds")
        return self

    @model_validator(mode="after")
    def _names_metrics_of_a_custom_engine_only(self) -> Self:
        if (self.engine is Engine.CUSTOM) != (self.metrics is not None):
            raise ValueError(
                f"metrics are {'missing' if self.metrics is None else 'given'} though engine is {self.engine.value}; "
                "give them exactly when it is custom"
            )
        return self

    def mode_at(self, now_s: float, default: Mode) -> Mode:
        """The mode in force at `now_s` (epoch seconds) in a process whose default mode is `default`.

        A mode that has ended is as if it had never been written: `mode_after` holds, else `default`, and never a mode
        that nobody chose. So a pause in an installation that only watches by default does not end in action; who
        pauses a workload that acts writes `mode_after: Active` beside it, and it acts again by itself.
        """
        if self.mode_until_s is not None and now_s >= self.mode_until_s:
            return self.mode_after or default
        return self.mode or default


def read_scaling_policy(spec_json: bytes) -> ScalingPolicySpec:
    """The spec of a ScalingPolicy. Raises InputError naming field, value and legal range for the first fault."""
    if not spec_json:
        raise InputError("spec: missing; a ScalingPolicy has one")
    try:
        spec = ScalingPolicySpec.model_validate(decode_value(spec_json))
    except ValidationError as error:
        raise InputError(first_fault(error, ScalingPolicySpec, Spelling.CAMEL).after("spec")) from error
    if spec.target_ref is None:
        raise InputError("spec.targetRef: missing; give the apiVersion, kind and name of what is to be scaled")
    try:
        compile_params(spec)
    except InputError as error:
        raise InputError(
            respelled(str(error), ScalingPolicySpec, Spelling.CAMEL).replace("policy.", "spec.")
        ) from error
    return spec
