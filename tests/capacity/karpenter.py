"""Karpenter as a plain program beside a control plane, with GPU nodes that KWOK plays, and faults that a test switches.

Definitions are read from Karpenter's Go module. It runs under a service account of its own that may do everything, so
that the audit log tells its writes from ours. Which instance types there are stands in `TYPES`; nodes get their GPUs by
the stages beside this file.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.cluster.plane import Plane
from tests.cluster.processes import Process, free_port, wait_for
from tests.real import parts

STAGES: Final = Path(__file__).with_name("stages.yaml")
NAMESPACE: Final = "karpenter"
ZONES: Final = ("zone-a", "zone-b")
CAPACITY_TYPES: Final = {"spot": 0.4, "on-demand": 1.0}
"""Capacity type -> price, as a share of the type's own."""
TYPES: Final = {"h100-8x": (8, 40.0), "h100-1x": (1, 6.0), "a100-8x": (8, 24.0), "l4-1x": (1, 1.0)}
"""Instance type -> (GPUs, dollars per hour on demand), each in all zones and by all capacity types."""

CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"


class Karpenter:
    """The program, its definitions and its faults; a context manager."""

    process: Process

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.folder = plane.folder / "karpenter"
        self.gates = ""
        """Its alpha features that are on from the next start, such as StaticCapacity=true."""
        self._faults = self.folder / "faults.json"
        self._health = free_port()

    def __enter__(self) -> Self:
        self.folder.mkdir(exist_ok=True)
        self._install()
        (self.folder / "types.json").write_text(json.dumps([_instance_type(name) for name in TYPES]))
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()

    def start(self) -> None:
        """Start it, and return once it is ready."""
        found = parts.program("karpenter")
        assert found is not None, "karpenter is not built"
        config = self.plane.kubeconfig("karpenter", self.plane.token(NAMESPACE, "karpenter"))
        env = os.environ | {
            "KUBECONFIG": str(config), "DISABLE_LEADER_ELECTION": "true", "METRICS_PORT": str(free_port()),
            "HEALTH_PROBE_PORT": str(self._health), "INSTANCE_TYPES_FILE_PATH": str(self.folder / "types.json"),
            "FAULTS_FILE_PATH": str(self._faults), "BATCH_IDLE_DURATION": "200ms", "BATCH_MAX_DURATION": "2s",
            "NO_PROXY": "127.0.0.1,localhost",
        }  # fmt: skip
        if self.gates:
            env["FEATURE_GATES"] = self.gates
        self.process = Process([found], self.folder / "karpenter.log", env).start()
        try:
            wait_for(self._ready, 60, "Karpenter", every_s=0.2)
        except AssertionError as error:
            self.process.kill()
            raise AssertionError(f"{error}\n{self.process.words()[-4000:]}") from None

    def fail(self, *insufficient: dict[str, str], hide_s: float = 0.0, launch_error: str = "") -> None:
        """What goes wrong from now on; nothing, without arguments. See tests/real/karpenter/main.go."""
        content = {"insufficient": insufficient, "hideSeconds": hide_s, "launchError": launch_error}
        fresh = self._faults.with_suffix(".new")
        fresh.write_text(json.dumps(content))
        fresh.replace(self._faults)

    def claims(self, *node_pools: str) -> list[dict[str, Any]]:
        """The NodeClaims of these NodePools, of all without any, oldest first."""
        items: list[dict[str, Any]] = self.plane.call("GET", CLAIMS)["items"]
        found = [one for one in items if not node_pools or _pool_of(one) in node_pools]
        return sorted(found, key=lambda one: str(one["metadata"]["creationTimestamp"]))

    def nodes(self, *node_pools: str) -> list[dict[str, Any]]:
        """The nodes of these NodePools, of all without any."""
        items: list[dict[str, Any]] = self.plane.call("GET", "/api/v1/nodes")["items"]
        return [one for one in items if _pool_of(one) is not None and (not node_pools or _pool_of(one) in node_pools)]

    def events(self, kind: str, reason: str) -> list[dict[str, Any]]:
        """The events with a reason on objects of a kind; those on NodeClaims are in the namespace `default`."""
        selector = f"involvedObject.kind%3D{kind}%2Creason%3D{reason}"
        items: list[dict[str, Any]] = self.plane.call("GET", f"/api/v1/events?fieldSelector={selector}")["items"]
        return items

    def reclaim(self, claim: str) -> None:
        """Take a spot node as a provider does that was given notice: its NodeClaim is deleted, the node drains."""
        self.plane.call("DELETE", f"{CLAIMS}/{claim}")

    def created(self, *node_pools: str) -> list[float]:
        """When it created NodeClaims for these NodePools, gone ones included, by its log; oldest first."""
        found = []
        for line in self.process.words().splitlines():
            if '"created nodeclaim"' in line:
                said = json.loads(line)
                if said["NodePool"]["name"] in node_pools:
                    found.append(datetime.fromisoformat(said["time"]).timestamp())
        return found

    def _ready(self) -> bool:
        if self.process.returncode is not None:
            raise AssertionError(f"it ended with {self.process.returncode}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self._health}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def _install(self) -> None:
        source = parts.source("karpenter", parts.KARPENTER_MODULE)
        assert source is not None
        crds = [*(source / "pkg/apis/crds").glob("*.yaml"), *(source / "kwok/apis/crds").glob("*.yaml")]
        self.plane.kubectl("apply", "--server-side", *(a for crd in sorted(crds) for a in ("-f", crd)))
        self.plane.kubectl("create", "namespace", NAMESPACE)
        self.plane.kubectl("create", "serviceaccount", "karpenter", "-n", NAMESPACE)
        rights = ("--clusterrole=cluster-admin", f"--serviceaccount={NAMESPACE}:karpenter")
        self.plane.kubectl("create", "clusterrolebinding", "karpenter", *rights)
        names = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "kwoknodeclasses.karpenter.kwok.sh")
        for name in names:
            self.plane.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
        self.plane.apply({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
            "spec": {},
        })  # fmt: skip


def node_pool(
    name: str,
    types: Sequence[str] = ("h100-8x",),
    *,
    capacity_types: Sequence[str] = ("on-demand",),
    zones: Sequence[str] = ZONES,
    stages: dict[str, str] | None = None,
    startup_taints: Sequence[str] = (),
    budgets: Sequence[dict[str, Any]] = ({"nodes": "100%"},),
    **spec: Any,
) -> dict[str, Any]:
    """A NodePool for GPU nodes that go a few seconds after they are empty; `stages` go on its nodes (stages.yaml)."""
    requirements = [
        {"key": key, "operator": "In", "values": list(values)}
        for key, values in (
            ("node.kubernetes.io/instance-type", types),
            ("karpenter.sh/capacity-type", capacity_types),
            ("topology.kubernetes.io/zone", zones),
        )
    ]
    template = {
        "metadata": {"annotations": {f"stage.headroom.dev/{k}": v for k, v in (stages or {}).items()}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": requirements,
            "expireAfter": "Never",
            "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
            "startupTaints": [{"key": key, "effect": "NoSchedule"} for key in startup_taints],
        },
    }
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5s", "budgets": list(budgets)}
    return {
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": template, "disruption": disruption, **spec},
    }  # fmt: skip


def gpu_pod(name: str, namespace: str, node_pool: str | None = None, gpus: int = 1, **spec: Any) -> dict[str, Any]:
    """A pod that wants GPUs, of a NodePool where it names one."""
    selector = {} if node_pool is None else {"karpenter.sh/nodepool": node_pool}
    limits = {"nvidia.com/gpu": str(gpus), "cpu": "1"}
    container = {"name": "engine", "image": "vllm:v1", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "containers": [container], "nodeSelector": selector, "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], **spec,
        },
    }  # fmt: skip


def condition(held: dict[str, Any], kind: str) -> dict[str, Any]:
    """A condition of an object; empty while it has none."""
    found = held.get("status", {}).get("conditions", ())
    return next((one for one in found if one["type"] == kind), {})


def _instance_type(name: str) -> dict[str, Any]:
    gpus, price = TYPES[name]
    offerings = [
        {
            "Price": price * share,
            "Available": True,
            "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            ],
        }
        for zone in ZONES
        for capacity_type, share in CAPACITY_TYPES.items()
    ]
    resources = {"cpu": "96", "memory": "1000Gi", "ephemeral-storage": "1000Gi", "nvidia.com/gpu": str(gpus)}
    return {
        "name": name, "architecture": "amd64", "operatingSystems": ["linux"], "resources": resources,
        "offerings": offerings,
    }  # fmt: skip


def _pool_of(held: dict[str, Any]) -> str | None:
    found: str | None = held["metadata"].get("labels", {}).get("karpenter.sh/nodepool")
    return found
