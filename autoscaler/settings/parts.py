"""The parts of the settings: one frozen model per concern, each rule that joins its fields beside them."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from autoscaler.api.faults import shown


def _no_switch(value: object) -> object:
    """YAML reads ``yes`` as true, and true would pass for 1."""
    if isinstance(value, bool):
        raise ValueError(f"{shown(value)} is no number; give one")  # noqa: TRY004 - pydantic collects only this
    return value


NO_SWITCH: Final = BeforeValidator(_no_switch)
Port = Annotated[int, Field(ge=1, le=65535), NO_SWITCH]
Gpus = Annotated[int, Field(ge=0, le=1_000_000), NO_SWITCH]
Label = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        json_schema_extra={"legal": "a name of at most 63 of a-z, 0-9 and -"},
    ),
]
ObjectName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
        max_length=253,
        json_schema_extra={"legal": "a name of at most 253 of a-z, 0-9, - and ."},
    ),
]
_KEY: Final = r"([a-z0-9][-.a-z0-9]*/)?[A-Za-z0-9][-._A-Za-z0-9]*"
_VALUE: Final = r"[-._A-Za-z0-9]*"
_TERM: Final = rf"(!?{_KEY}|{_KEY} *(=|==|!=) *{_VALUE}|{_KEY} +(in|notin) *\( *{_VALUE}( *, *{_VALUE})* *\))"
Selector = Annotated[
    str,
    Field(
        pattern=rf"^{_TERM}( *, *{_TERM})*$",
        max_length=1024,
        json_schema_extra={"legal": "a label selector such as app=llm-gateway"},
    ),
]
PagePath = Annotated[
    str, Field(pattern=r"^/\S*$", max_length=256, json_schema_extra={"legal": "a path that begins with /"})
]


class Part(BaseModel):
    """The base of all parts: frozen, unknown fields refused. Texts of the environment become numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ScaledKind(Part):
    """A kind of object that Headroom may scale: it serves ``/scale``, and our role allows patching it."""

    group: Annotated[str, Field(pattern=r"^[-.a-z0-9]*$", max_length=253)] = ""
    """API group; empty for the core group."""
    version: Annotated[
        str, Field(pattern=r"^v[a-z0-9]+$", max_length=63, json_schema_extra={"legal": "a version such as v1"})
    ]
    """The version of the group that is asked."""
    resource: Label
    """The plural in paths, such as deployments."""
    kind: Annotated[
        str,
        Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=63, json_schema_extra={"legal": "a kind such as Deployment"}),
    ]
    """The kind, as policies name it."""


def _each_once(kinds: tuple[ScaledKind, ...]) -> tuple[ScaledKind, ...]:
    seen: set[tuple[str, str]] = set()
    for kind in kinds:
        if (kind.group, kind.kind) in seen:
            raise ValueError(f"{kind.kind} of group {kind.group!r} is listed twice; list one version of it")
        seen.add((kind.group, kind.kind))
    return kinds


ScaledKinds = Annotated[tuple[ScaledKind, ...], Field(min_length=1, max_length=32), AfterValidator(_each_once)]
DEFAULT_KINDS: Final = (
    ScaledKind(group="apps", version="v1", resource="deployments", kind="Deployment"),
    ScaledKind(group="apps", version="v1", resource="statefulsets", kind="StatefulSet"),
    ScaledKind(group="leaderworkerset.x-k8s.io", version="v1", resource="leaderworkersets", kind="LeaderWorkerSet"),
)


class Kube(Part):
    """How the API server is reached, and how often at most."""

    kubeconfig: Path | None = None
    """A kubeconfig; none: the pod's service account, else kubectl's own places."""
    context: str | None = None
    """A context of the kubeconfig; none: its current one."""
    qps: Annotated[float, Field(gt=0, le=10_000), NO_SWITCH] = 50.0
    """Requests per second in the long run."""
    burst: Annotated[int, Field(ge=1, le=10_000), NO_SWITCH] = 100
    """Requests at once; at least one second's worth."""

    @model_validator(mode="after")
    def _burst_holds_a_second(self) -> Self:
        if self.burst < self.qps:
            raise ValueError(f"burst {self.burst} is below qps {self.qps:g}; raise burst or lower qps")
        return self


class Scrape(Part):
    """How the pods' metrics pages are read."""

    interval_s: Annotated[float, Field(ge=1, le=5), NO_SWITCH] = 1.0
    """Every pod is read once in this time."""
    timeout_s: Annotated[float, Field(ge=0.05, le=5), NO_SWITCH] = 1.0
    """How long one page may take; at most the interval."""
    max_bytes: Annotated[int, Field(ge=4096, le=16 * 2**20), NO_SWITCH] = 2**20
    """A longer page is refused."""
    follower_scrapes: bool = False
    """Whether the replica that does not lead reads the pages too: twice the load, a warmer take-over."""

    @model_validator(mode="after")
    def _one_page_at_a_time(self) -> Self:
        if self.timeout_s > self.interval_s:
            raise ValueError(
                f"timeout_s {self.timeout_s:g} is above interval_s {self.interval_s:g}; lower the time-out, "
                "so that a slow page is given up before it is asked for again"
            )
        return self


class Lease(Part):
    """Who of the replicas leads. One that could not renew for `deadline_s` stops writing and ends."""

    name: Annotated[ObjectName, Field(max_length=200)] = "headroom"
    """What a leader keeps is called after it too: two installations in one namespace need two names."""
    duration_s: Annotated[float, Field(ge=1, le=300), NO_SWITCH] = 10.0
    """After so long without renewal another replica takes over."""
    deadline_s: Annotated[float, Field(ge=0.5, le=300), NO_SWITCH] = 7.0
    """A leader that could not renew for so long stops writing and ends; below `duration_s`."""
    renew_s: Annotated[float, Field(ge=0.1, le=300), NO_SWITCH] = 2.0
    """How often the leader renews; below `deadline_s`."""

    @model_validator(mode="after")
    def _renewed_before_it_is_given_up_before_it_is_taken(self) -> Self:
        if not self.deadline_s < self.duration_s:
            raise ValueError(
                f"deadline_s {self.deadline_s:g} is not below duration_s {self.duration_s:g}; lower the deadline, "
                "or two replicas could write at once"
            )
        if not self.renew_s < self.deadline_s:
            raise ValueError(
                f"renew_s {self.renew_s:g} is not below deadline_s {self.deadline_s:g}; renew more often, "
                "or the lease is given up between two renewals"
            )
        return self


class Audit(Part):
    """Where decisions are kept for replay."""

    directory: Path | None = None
    """Files of JSON lines go here; none: decisions are not kept."""
    max_bytes: Annotated[int, Field(ge=2**16, le=2**34), NO_SWITCH] = 64 * 2**20
    """A file that has reached this size is followed by the next."""
    keep: Annotated[int, Field(ge=1, le=1000), NO_SWITCH] = 8
    """Files kept, the one being written included."""


class Budgets(Part):
    """How many GPUs all scaled workloads may hold together."""

    cluster_gpus: Gpus | None = None
    """In the whole cluster; none: no such limit."""
    namespaces: dict[Label, Gpus] = {}
    """Per namespace; a namespace that is not named has no limit of its own."""

    @model_validator(mode="after")
    def _no_part_above_the_whole(self) -> Self:
        for namespace, gpus in self.namespaces.items():
            if self.cluster_gpus is not None and gpus > self.cluster_gpus:
                raise ValueError(
                    f"namespaces.{namespace} {gpus} is above cluster_gpus {self.cluster_gpus}; "
                    "lower it or raise cluster_gpus"
                )
        return self


class GatewayProfile(Enum):
    """What the gateway is, which says by what names its metrics go."""

    LLM_D_EPP = "llm-d-epp"


class Gateway(Part):
    """A gateway in front of pods: its own pods are read for what waits in it, also while no serving pod lives."""

    namespace: Label
    """Where the gateway's pods are."""
    selector: Selector
    """Label selector of the gateway's pods, such as app=llm-gateway."""
    port: Port
    """The pods' port with metrics."""
    path: PagePath = "/metrics"
    """The path of the metrics page on them."""
    profile: GatewayProfile = GatewayProfile.LLM_D_EPP
    """Which gateway it is, which says by what names its metrics go: llm-d's endpoint picker."""
    pool: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The inference pool whose numbers are meant, where the gateway serves several; none: all of them."""


class GpuExporter(Part):
    """NVIDIA's DCGM exporter: its pods say when a GPU under a serving pod has failed."""

    namespace: Label = "gpu-operator"
    """Where the exporter's pods are."""
    selector: Selector = "app=nvidia-dcgm-exporter"
    """Label selector of the exporter's pods; the default is what the GPU operator sets."""
    port: Port = 9400
    """The pods' port with metrics."""
    path: PagePath = "/metrics"
    """The path of the metrics page on them."""


BASE_URL: Final = (
    r"^https?://([-._A-Za-z0-9]+|\[[0-9a-fA-F:.]+\])"
    r"(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?(/[^\s@?#]*)?$"
)
"""For whoever looks at a URL before the controller does."""


def _endpoint(value: object) -> object:
    """A base URL, or ValueError; a password that was written into it is not repeated."""
    if not isinstance(value, str) or len(value) > 2048:
        raise ValueError("it is no text of at most 2048 characters; give a URL such as http://prometheus:9090")
    if "@" in value:
        raise ValueError("it carries a user name or password; leave it out and give bearer_token_file")
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0 or parts.query or parts.fragment:
        raise ValueError(f"{shown(value)} is no base URL; give one such as http://prometheus.monitoring:9090")
    return value.rstrip("/")


class Prometheus(Part):
    """A Prometheus that policies may name. Only the administrator writes its URL."""

    url: Annotated[
        str,
        BeforeValidator(_endpoint),
        Field(json_schema_extra={"pattern": BASE_URL, "maxLength": 2048}),
    ]
    """Its base URL, such as http://prometheus.monitoring:9090, without a user's name or a password."""
    bearer_token_file: Path | None = None
    """A file with the token that is sent to this URL and to no other."""
    ca_file: Path | None = None
    """A file of certificates (PEM) that its own is checked against, read again when it changes; none: the system's."""
