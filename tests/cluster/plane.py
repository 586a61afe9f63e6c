"""A Kubernetes control plane of plain programs on loopback, with fake nodes that run fake pods.

etcd, kube-apiserver, scheduler and controller-manager are the real ones; KWOK plays the kubelets. How long a pod takes
to become ready is what its annotations say (see stages.yaml), never a measurement. Pods get addresses in 127.32.0.0/16.
"""

import base64
import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.cluster.processes import Process, free_port, wait_for
from tests.real import parts

HERE: Final = Path(__file__).resolve().parent
ADMIN: Final = "admin-of-the-tests"
POD_CIDR: Final = "127.32.0.0/16"


class RefusedError(Exception):
    """The API server answered with something else than success."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status


def audit_entries(audit: Path, since: int = 0) -> list[dict[str, Any]]:
    """What an audit log holds from this byte on; what is being written of a last line is not there yet."""
    with audit.open("rb") as log:
        log.seek(since)
        whole, _, _ = log.read().rpartition(b"\n")
    return [json.loads(line) for line in whole.split(b"\n") if line]


class Plane:
    """One control plane in `folder`; a context manager. `audit` holds the API server's audit log.

    `aggregates` lets others serve API groups through it; `manager_flags` are for the controller-manager, `stages` are
    files of KWOK stages beside stages.yaml.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 4,
        gpus: int = 8,
        aggregates: bool = False,
        manager_flags: Sequence[str] = (),
        stages: Sequence[Path] = (),
    ) -> None:
        self.folder = folder
        self.audit = folder / "audit.log"
        self._nodes, self._gpus = nodes, gpus
        self._aggregates, self._manager_flags, self._stages = aggregates, manager_flags, stages
        self._etcd_port, self._peer_port, self._port = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self._others: list[Process] = []
        self.api: Process = self._api()

    def __enter__(self) -> "Plane":
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_files()
        self._start(
            _tool("etcd"), "--data-dir", self.folder / "etcd",
            "--listen-client-urls", self._etcd_url, "--advertise-client-urls", self._etcd_url,
            "--listen-peer-urls", f"http://127.0.0.1:{self._peer_port}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{self._peer_port}",
            "--initial-cluster", f"default=http://127.0.0.1:{self._peer_port}", "--unsafe-no-fsync=true",
        )  # fmt: skip
        self.api.start()
        self.wait_ready()
        self.kubeconfig("admin", ADMIN)
        config = self.folder / "admin.kubeconfig"
        self._start(
            _tool("kube-controller-manager"), "--kubeconfig", config, "--leader-elect=false",
            "--use-service-account-credentials", "--service-account-private-key-file", self.folder / "sa.key",
            "--root-ca-file", self._certificate, "--kube-api-qps=500", "--kube-api-burst=1000",
            "--authentication-kubeconfig", config, "--authorization-kubeconfig", config,
            "--bind-address=127.0.0.1", "--secure-port", str(free_port()), "--cert-dir", self.folder / "kcm",
            "--controllers", "deployment,replicaset,statefulset,serviceaccount,serviceaccount-token,namespace,"
            "garbagecollector,horizontalpodautoscaling,resourcequota,disruption,nodelifecycle",
            *self._manager_flags,
        )  # fmt: skip
        self._start(
            _tool("kube-scheduler"), "--kubeconfig", config, "--leader-elect=false",
            "--authentication-kubeconfig", config, "--authorization-kubeconfig", config,
            "--bind-address=127.0.0.1", "--secure-port", str(free_port()), "--cert-dir", self.folder / "scheduler",
        )  # fmt: skip
        self._start(
            _tool("kwok"), "--kubeconfig", config, "--manage-all-nodes", "--cidr", POD_CIDR, "--node-ip", "127.0.0.1",
            "--config", HERE / "stages.yaml", "--server-address", "", "--node-lease-duration-seconds", "40",
            *(part for file in self._stages for part in ("--config", file)),
        )  # fmt: skip
        for number in range(self._nodes):
            self._add_node(f"gpu-{number}")
        wait_for(lambda: self._ready_nodes() == self._nodes, 30, f"{self._nodes} ready nodes")
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*reversed(self._others), self.api):
            process.kill()

    def call(
        self, method: str, path: str, body: object = None, kind: str = "application/json", seconds: float = 10, *,
        token: str = ADMIN,
    ) -> Any:  # fmt: skip
        """The decoded answer to a request of whoever holds `token`, the tests' administrator. Raises RefusedError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        request.add_header("Authorization", f"Bearer {token}")
        request.add_header("Content-Type", kind)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._trust())
        )
        try:
            with opener.open(request, timeout=seconds) as answer:
                text = answer.read()
                is_json = "json" in answer.headers.get("Content-Type", "")
                return json.loads(text) if is_json else text.decode()
        except urllib.error.HTTPError as error:
            raise RefusedError(error.code, error.read().decode(errors="replace")[:500]) from error

    def apply(self, manifest: dict[str, Any]) -> str:
        """Create or replace the fields of an object, by server-side apply through kubectl."""
        return self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=json.dumps(manifest))

    def kubectl(self, *arguments: str | Path, text: str | None = None, check: bool = True) -> str:
        """What kubectl prints; its errors are in the AssertionError."""
        command = [str(_tool("kubectl")), "--kubeconfig", str(self.folder / "admin.kubeconfig"), *map(str, arguments)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=self.folder)
        assert done.returncode == 0 or not check, f"kubectl {' '.join(map(str, arguments))}: {done.stderr}"
        return done.stdout if done.returncode == 0 else done.stderr

    def token(self, namespace: str, account: str) -> str:
        """A token of a service account, as a pod of it would hold."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = self.call("POST", path, {"spec": {"expirationSeconds": 7200}})
        return str(answer["status"]["token"])

    def kubeconfig(self, name: str, token: str, server: str | None = None) -> Path:
        """A kubeconfig file for whoever holds `token`; `server` may be something in between."""
        authority = base64.b64encode(self._certificate.read_bytes()).decode()
        path = self.folder / f"{name}.kubeconfig"
        content = {
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": {
                "server": server or self.url, "certificate-authority-data": authority}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": name}}],
        }  # fmt: skip
        path.write_text(json.dumps(content))
        return path

    def restart_api(self) -> None:
        """Start a killed API server again, on the same port and data."""
        self.api.kill()
        self.api = self._api().start()
        self.wait_ready()

    def wait_ready(self, seconds: float = 30) -> None:
        """Return once the API server says that it is ready."""
        wait_for(self._answers, seconds, f"the API server ({self.api.log})", every_s=0.1)

    def audited(self, *, verb: str, resource: str, user: str = "") -> list[dict[str, Any]]:
        """Answered requests of the audit log, oldest first: `verb` on `resource`, as in "deployments/scale"."""
        found = []
        for entry in audit_entries(self.audit):
            ref = entry.get("objectRef", {})
            name = "/".join(p for p in (ref.get("resource"), ref.get("subresource")) if p)
            if entry["verb"] == verb and name == resource and user in entry["user"]["username"]:
                found.append(entry)
        return found

    def _answers(self) -> bool:
        try:
            return bool(self.call("GET", "/readyz", seconds=2) == "ok")
        except (OSError, RefusedError):
            return False

    def _ready_nodes(self) -> int:
        nodes = self.call("GET", "/api/v1/nodes")["items"]
        conditions = [c for node in nodes for c in node.get("status", {}).get("conditions", [])]
        return sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _add_node(self, name: str) -> None:
        sizes = {"cpu": "64", "memory": "512Gi", "pods": "500", "nvidia.com/gpu": str(self._gpus)}
        labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "kubernetes.io/hostname": name}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"allocatable": sizes, "capacity": sizes, "conditions": [ready]}
        self.call("POST", "/api/v1/nodes", {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status,
        })  # fmt: skip

    def _api(self) -> Process:
        return Process([
            _tool("kube-apiserver"), "--etcd-servers", self._etcd_url,
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port", str(self._port),
            "--cert-dir", self.folder / "apiserver", "--endpoint-reconciler-type=none",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file", self.folder / "sa.pub",
            "--service-account-signing-key-file", self.folder / "sa.key",
            "--authorization-mode=Node,RBAC", "--token-auth-file", self.folder / "tokens.csv",
            "--audit-log-path", self.audit, "--audit-policy-file", self.folder / "audit.yaml",
            "--service-cluster-ip-range=10.0.0.0/24", "--watch-cache=true",
            *(self._front_proxy_flags() if self._aggregates else ()),
        ], self.folder / "apiserver.log")  # fmt: skip

    def _front_proxy_flags(self) -> list[str | Path]:
        """How the API server shows others on whose behalf it asks."""
        return [
            "--requestheader-client-ca-file", self.folder / "front-proxy.crt",
            "--requestheader-allowed-names=front-proxy", "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--proxy-client-cert-file", self.folder / "front-proxy.crt",
            "--proxy-client-key-file", self.folder / "front-proxy.key",
        ]  # fmt: skip

    def _start(self, program: Path, *arguments: str | Path) -> None:
        self._others.append(Process([program, *arguments], self.folder / f"{program.name}.log").start())

    @property
    def _etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._etcd_port}"

    @property
    def _certificate(self) -> Path:
        return self.folder / "apiserver/apiserver.crt"

    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._certificate))

    def _write_files(self) -> None:
        openssl = shutil.which("openssl")
        assert openssl is not None
        key, public = self.folder / "sa.key", self.folder / "sa.pub"
        _quietly([openssl, "genrsa", "-out", key, "2048"])
        _quietly([openssl, "rsa", "-in", key, "-pubout", "-out", public])
        if self._aggregates:
            _quietly([
                openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=front-proxy",
                "-keyout", self.folder / "front-proxy.key", "-out", self.folder / "front-proxy.crt",
            ])  # fmt: skip
        (self.folder / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n')
        (self.folder / "audit.yaml").write_text(AUDIT)


AUDIT: Final = json.dumps({
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["admin"], "verbs": ["get", "list", "watch"]},
        {"level": "RequestResponse", "resources": [{"group": g, "resources": [f"{r}/scale"]} for g, r in (
            ("apps", "deployments"), ("apps", "statefulsets"), ("leaderworkerset.x-k8s.io", "leaderworkersets"))]},
        {"level": "Metadata"},
    ],
})  # fmt: skip


def _tool(name: str) -> Path:
    found = parts.program(name)
    assert found is not None, f"{name} is not built"
    return found


def _quietly(command: Sequence[str | Path]) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
