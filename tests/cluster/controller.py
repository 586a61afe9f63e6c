"""The controller as its own process, under the rights of its own service account, and what its audit says."""

import base64
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.cluster.plane import Plane
from tests.cluster.processes import Process, free_port, wait_for

NAMESPACE: Final = "headroom-system"
ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:headroom"
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
LAST_LINES: Final = 20
"""Of each of its records, in the report of a test that failed."""

STARTED: "Final[list[Controller]]" = []
"""Every controller of this run, oldest first."""


class Controller(Process):
    """`headroom run` against a plane; a context manager. `settings` override those that tests share, `env` is put
    into its environment."""

    def __init__(
        self,
        plane: Plane,
        name: str = "headroom-0",
        server: str | None = None,
        env: Mapping[str, str] = NOTHING,
        **settings: Any,
    ) -> None:
        self.folder = plane.folder / name
        self.folder.mkdir(exist_ok=True)
        self.port = free_port()
        token = plane.token(NAMESPACE, "headroom")
        self.credential = _credential(token)
        """What the API server's audit log calls its token by."""
        content: dict[str, Any] = {
            "namespace": NAMESPACE,
            "identity": name,
            "default_mode": "Active",
            "allow_loopback_targets": True,
            "kube": {"kubeconfig": str(plane.kubeconfig(name, token, server)), "qps": 500, "burst": 1000},
            "http": {"host": "127.0.0.1", "port": self.port, "advertised_host": "127.0.0.1"},
            "audit": {"directory": str(self.folder / "audit")},
        } | settings
        config = self.folder / "settings.json"
        config.write_text(json.dumps(content))
        STARTED.append(self)
        own = {k: v for k, v in os.environ.items() if not k.startswith("HEADROOM_")} | {"OMP_NUM_THREADS": "1"}
        super().__init__(
            [sys.executable, "-m", "autoscaler", "run", "--config", config], self.folder / "output.log", {**own, **env}
        )

    @property
    def url(self) -> str:
        """Where it answers over HTTP."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, seconds: float = 5.0) -> Any:
        """The decoded answer of its HTTP server; text where it is none of JSON. Raises OSError while it is not up."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, timeout=seconds) as answer:
            text = answer.read()
            return json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text.decode()

    def wait_leading(self, seconds: float = 30.0) -> None:
        """Return once it leads. AssertionError with its output otherwise."""
        try:
            wait_for(self._leads, seconds, f"{self.command} to lead", every_s=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.words()[-4000:]}") from None

    def decisions(self) -> list[dict[str, Any]]:
        """Every decision it wrote down, oldest first."""
        return [line for line in self._lines("audit") if "verdict" in line]

    def journal(self) -> list[dict[str, Any]]:
        """What was done about decisions and what went wrong around them, oldest first."""
        return self._lines("journal")

    def testimony(self) -> str:
        """Its last decisions in words, what was done about them, and its last output: why a test waited in vain."""
        told = [f"{line['now_s']:.1f} {line['text']}" for line in self.decisions()[-LAST_LINES:]]
        done = [json.dumps(line) for line in self.journal()[-LAST_LINES:]]
        return "\n".join(["decisions:", *told, "journal:", *done, "output:", *self.words().splitlines()[-LAST_LINES:]])

    def _leads(self) -> bool:
        if self.returncode is not None:
            raise AssertionError(f"it ended with {self.returncode}")
        try:
            return bool(self.get("/api/status")["replica"]["leading"])
        except (OSError, urllib.error.HTTPError):
            return False

    def _lines(self, name: str) -> list[dict[str, Any]]:
        files: list[Path] = sorted((self.folder / "audit").glob(f"{name}*.jsonl"))
        text = b"".join(file.read_bytes() for file in files)
        return [json.loads(line) for line in text.split(b"\n")[:-1]]


def _credential(token: str) -> str:
    claims = token.split(".")[1]
    jti = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["jti"]
    return f"JTI={jti}"
