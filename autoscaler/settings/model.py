"""All settings of an installation as one frozen model. It reads nothing by itself: `load_settings` does."""

import hashlib
import json
from enum import Enum
from typing import Annotated, Any, Final

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from autoscaler.api.modes import Mode
from autoscaler.api.shapes import Shape
from autoscaler.settings.batch import Batch
from autoscaler.settings.http import Http
from autoscaler.settings.keda import Keda
from autoscaler.settings.limits import Limits
from autoscaler.settings.parts import (
    DEFAULT_KINDS,
    Audit,
    Budgets,
    Gateway,
    GpuExporter,
    Kube,
    Label,
    Lease,
    ObjectName,
    Prometheus,
    ScaledKinds,
    Scrape,
)
from autoscaler.settings.warm_pools import WarmPools

ENV_PREFIX: Final = "HEADROOM_"
NESTED: Final = "__"


_LOOPBACK: Final = (
    "allow_loopback_targets is on: metrics are read from loopback addresses, so that any process on this machine can "
    "pass for a pod. It is for tests; turn it off elsewhere."
)


_PLAINTEXT: Final = (
    "keda.plaintext is on: KEDA is answered without encryption, so that whoever reaches the port may ask for every "
    "workload's count, and whoever stands between may change it. Give keda.tls instead."
)


class LogLevel(Enum):
    """The least important messages that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(Enum):
    """How a line of the log looks."""

    TEXT = "text"
    JSON = "json"


GpuResource = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][-.a-z0-9]*/[A-Za-z0-9][-._A-Za-z0-9]*$",
        max_length=316,
        json_schema_extra={"legal": "a resource such as nvidia.com/gpu"},
    ),
]


class Settings(BaseSettings):
    """What the administrator sets for all workloads."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=NESTED,
        env_ignore_empty=True,
    )

    namespace: Label = "headroom-system"
    """Headroom's own namespace: its lease, its checkpoints and the freeze are there."""
    identity: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The name of this replica in the lease (the pod's name); none: the machine's host name."""
    watch_namespaces: tuple[Label, ...] = ()
    """Where workloads are scaled; empty: in all namespaces."""
    kinds: ScaledKinds = DEFAULT_KINDS
    """What may be scaled."""
    default_mode: Mode = Mode.SHADOW
    """The mode of a policy that gives none."""
    freeze_config_map: ObjectName = "headroom-freeze"
    """The ConfigMap, in Headroom's own namespace, that stops all action."""
    gpu_resource_names: Annotated[tuple[GpuResource, ...], Field(min_length=1, max_length=16)] = (
        "nvidia.com/gpu",
        "amd.com/gpu",
    )
    """The resources of pods and nodes that are GPUs."""
    deletion_cost: bool = False
    """Before a Deployment is shrunk, mark the pods with the least work, so that they are the ones that go. It takes the
    right to patch pods wherever workloads are scaled (config/rbac/optional)."""
    log_level: LogLevel = LogLevel.INFO
    """The least important lines of the log: `info` has one per change of a count, `warning` troubles only."""
    log_format: LogFormat = LogFormat.TEXT
    """How a line of the log looks: for people, or as a JSON object for whoever collects it."""
    allow_loopback_targets: bool = False
    """For tests only: pods, gateways and Prometheus may have loopback addresses."""

    kube: Kube = Kube()
    scrape: Scrape = Scrape()
    lease: Lease = Lease()
    http: Http = Http()
    keda: Keda = Keda()
    audit: Audit = Audit()
    budgets: Budgets = Budgets()
    limits: Limits = Limits()
    gateways: Annotated[dict[Label, Gateway], Field(max_length=1000)] = {}
    """Gateways by the names that policies use."""
    gpu_exporter: GpuExporter | None = None
    """Where GPUs' errors are read; none: a failed GPU is seen only by what its pod no longer does."""
    warm_pools: WarmPools = WarmPools()
    batch: Batch = Batch()
    shapes: Annotated[dict[Label, Shape], Field(max_length=100)] = {}
    """What nodes offer, by the names that WarmPools use, with prices where they are known."""
    prometheus: Annotated[dict[Label, Prometheus], Field(max_length=100)] = {}
    """Prometheus endpoints by the names that policies use."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed in: `load_settings` reads the rest."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    def warnings(self) -> tuple[str, ...]:
        """What an operator should be told at the start, in sentences."""
        plaintext = self.keda.enabled and self.keda.plaintext
        return ((_LOOPBACK,) if self.allow_loopback_targets else ()) + ((_PLAINTEXT,) if plaintext else ())

    @property
    def keda_addresses(self) -> frozenset[str]:
        """Every scalerAddress that means us, without scheme; none while KEDA is not answered."""
        keda = self.keda
        if not keda.enabled:
            return frozenset()
        inside = f"{keda.service}.{self.namespace}"
        names = (f"{inside}{ending}:{keda.port}" for ending in ("", ".svc", ".svc.cluster.local"))
        return frozenset({*names, *(address.removeprefix("dns:///") for address in keda.addresses)})

    def effective(self) -> dict[str, Any]:
        """All settings as plain JSON values. There is no secret in them: tokens stand in files, and a URL with a
        password is refused."""
        return self.model_dump(mode="json")

    def fingerprint(self) -> str:
        """The same for all replicas of one installation, and another one where any setting differs between them. What
        each replica is called and where it answers is its own, and no part of it."""
        shared = self.effective()
        shared["identity"] = shared["http"]["advertised_host"] = None
        return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:12]
