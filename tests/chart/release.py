"""A release of the chart on a real API server, and the controller as one of its pods would run it.

The pods that the chart's Deployment makes are fakes, which run nothing: the process here takes the name of one of them,
its account's token, the settings out of the release's ConfigMap and the certificates out of its Secrets.
"""

import base64
import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.chart.generate import CHART
from tests.chart.image import inside
from tests.chart.rendering import HELM, NAMESPACE
from tests.cluster.plane import Plane
from tests.cluster.processes import Process, free_port, wait_for

RELEASE: Final = "headroom"


class Release:
    """The chart in `namespace` of a plane. Every call returns what Helm printed; AssertionError where it fails."""

    def __init__(self, plane: Plane, namespace: str = NAMESPACE, name: str = RELEASE) -> None:
        self.plane, self.namespace, self.name = plane, namespace, name

    def install(self, values: Mapping[str, Any], chart: Path = CHART) -> str:
        """Install it, and its namespace with it."""
        return self._helm("install", self.name, chart, "--create-namespace", "--values", "-", text=json.dumps(values))

    def upgrade(self, values: Mapping[str, Any]) -> str:
        """Upgrade it to these values."""
        return self._helm("upgrade", self.name, CHART, "--values", "-", text=json.dumps(values))

    def uninstall(self) -> str:
        """Take it away."""
        return self._helm("uninstall", self.name, "--wait", "--timeout", "60s")

    def hooks(self) -> str:
        """The objects of its test."""
        return self._helm("get", "hooks", self.name)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One object of its namespace."""
        return dict(json.loads(self.plane.kubectl("-n", self.namespace, "get", kind, name, "-o", "json")))

    def pods(self) -> list[str]:
        """The names of the controller's pods."""
        where = ("-n", self.namespace, "-l", "app.kubernetes.io/component=controller")
        return self.plane.kubectl("get", "pods", *where, "-o", "name").replace("pod/", "").split()

    def _helm(self, *arguments: str | Path, text: str | None = None) -> str:
        where = ("--namespace", self.namespace, "--kubeconfig", self.plane.folder / "admin.kubeconfig")
        homes = {f"HELM_{name}_HOME": str(self.plane.folder / "helm") for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [str(part) for part in (HELM, *arguments, *where)],
            input=text, capture_output=True, text=True, check=False, env={**os.environ, **homes},
        )  # fmt: skip
        assert done.returncode == 0, f"helm {arguments[0]}: {done.stderr}"
        return done.stdout


class Pod(Process):
    """`headroom run` in the place of one of the release's pods, out of `image` if it is given; a context manager."""

    def __init__(self, release: Release, name: str, image: Path | None = None) -> None:
        self.port, self.keda_port = free_port(), free_port()
        folder = (image.parent if image else release.plane.folder) / f"pod-{name}"
        folder.mkdir()
        settings = release.get("configmap", "headroom")["data"]["settings.yaml"]
        (folder / "settings.yaml").write_text(settings)
        token = release.plane.token(release.namespace, "headroom")
        kubeconfig = shutil.copy(release.plane.kubeconfig(name, token), folder)
        env = {
            "HEADROOM_IDENTITY": name,
            "HEADROOM_HTTP__HOST": "127.0.0.1",
            "HEADROOM_HTTP__PORT": str(self.port),
            "HEADROOM_HTTP__ADVERTISED_HOST": "127.0.0.1",
            "HEADROOM_KUBE__KUBECONFIG": str(kubeconfig),
            "HEADROOM_ALLOW_LOOPBACK_TARGETS": "true",
            "OMP_NUM_THREADS": "1",
        }
        self.secure = "server_name" in settings
        self.env: dict[str, str] = {}
        """What our own commands are given to ask it."""
        if "cert_file" in settings:
            self.server: Path = files(release.get("secret", "headroom-keda-tls"), folder)
        if self.secure:
            for part, file in (("CERT", "tls.crt"), ("KEY", "tls.key"), ("CA", "ca.crt")):
                env[f"HEADROOM_HTTP__TLS__{part}_FILE"] = str(self.server / file)
            self.env["HEADROOM_CA_FILE"] = str(self.server / "ca.crt")
        if "authorize: true" in settings:
            self.env["HEADROOM_TOKEN"] = release.plane.token(release.namespace, "headroom-reader")
        if "client_ca_file" in settings:
            env |= {
                "HEADROOM_KEDA__HOST": "127.0.0.1",
                "HEADROOM_KEDA__PORT": str(self.keda_port),
                "HEADROOM_KEDA__TLS__CERT_FILE": str(self.server / "tls.crt"),
                "HEADROOM_KEDA__TLS__KEY_FILE": str(self.server / "tls.key"),
                "HEADROOM_KEDA__TLS__CLIENT_CA_FILE": str(self.server / "ca.crt"),
            }
        command = ["run", "--config", str(folder / "settings.yaml")]
        if image is not None:
            super().__init__(inside(image, "headroom", *command, env=env), folder / "output.log")
            return
        own = {key: value for key, value in os.environ.items() if not key.startswith("HEADROOM_")}
        super().__init__([sys.executable, "-m", "autoscaler", *command], folder / "output.log", {**own, **env})

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"https://localhost:{self.port}" if self.secure else f"http://127.0.0.1:{self.port}"

    def ask(self, *arguments: str, code: int = 0) -> str:
        """What a command of ours prints about it."""
        command = [sys.executable, "-m", "autoscaler", *arguments, "--server", self.url]
        env = os.environ | self.env
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == code, done.stdout + done.stderr + self.words()[-4000:]
        return done.stdout

    def wait_leading(self) -> None:
        """Return once it leads."""
        wait_for(self._leads, 60, f"{self.command} to lead", every_s=0.2)

    def _leads(self) -> bool:
        assert self.returncode is None, self.words()[-4000:]
        try:
            return bool(json.loads(self.get("/api/status", self.env.get("HEADROOM_TOKEN")))["replica"]["leading"])
        except OSError:
            return False

    def get(self, path: str, token: str | None = None) -> str:
        """What it answers to whoever shows this token. Raises HTTPError, or OSError where it does not answer."""
        context = ssl.create_default_context(cafile=self.env.get("HEADROOM_CA_FILE"))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        request = urllib.request.Request(self.url + path)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        with opener.open(request, timeout=10) as answer:
            return str(answer.read().decode())


def files(secret: dict[str, Any], folder: Path) -> Path:
    """The files of a Secret in a folder of its name, as a pod would see them."""
    into = folder / str(secret["metadata"]["name"])
    into.mkdir()
    for name, value in secret["data"].items():
        (into / name).write_bytes(base64.b64decode(value))
    return into
