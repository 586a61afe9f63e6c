"""The real controller of a kind of workload, with its webhooks, as a plain program beside a control plane.

Its resource and its webhooks are read from its Go module; the API server reaches the webhooks on loopback instead of
through a Service. It needs no rights of its own and uses the administrator's.
"""

import base64
import json
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster.plane import Plane
from tests.cluster.processes import Process, free_port, wait_for
from tests.keda.certs import Authority
from tests.real import parts


@dataclass(frozen=True, slots=True)
class Program:
    """What is started: of which part, and where its module keeps what it needs."""

    part: str
    module: str
    name: str
    """Of the binary."""
    crds: tuple[str, ...]
    hooks: str
    config: str
    """The API version of its configuration; empty for one of ours that takes its port and certificates as flags."""
    served: str
    """Where its objects are listed."""
    label: str
    """What its pods carry; of other pods its webhooks are not told."""


class Operator:
    """The controller; a context manager."""

    controller: Process

    def __init__(self, plane: Plane, program: Program) -> None:
        self.plane, self.program = plane, program
        self.folder = plane.folder / program.part
        self._port, self._health = free_port(), free_port()
        found = parts.source(program.part, program.module)
        assert found is not None, "its Go module is not downloaded"
        self._source: Path = found

    def __enter__(self) -> Self:
        self.folder.mkdir()
        for crd in self.program.crds:
            self.plane.kubectl("apply", "--server-side", "-f", self._source / crd)
        served = self.program.served
        wait_for(lambda: self.plane.kubectl("get", "--raw", served, check=False).startswith("{"), 30, served)
        authority = Authority(self.folder, "ca")
        pair = authority.sign(self.program.part, "IP:127.0.0.1")
        pair.cert.rename(self.folder / "tls.crt")
        pair.key.rename(self.folder / "tls.key")
        with ExitStack() as half:
            self._start(half)
            for hooks in self._webhooks(base64.b64encode(authority.cert.read_bytes()).decode()):
                self.plane.apply(hooks)
            half.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.controller.kill()

    def _start(self, half: ExitStack) -> None:
        program = parts.program(self.program.name)
        assert program is not None, f"{self.program.name} is not built"
        env = os.environ | {
            "KUBECONFIG": str(self.plane.folder / "admin.kubeconfig"), "NO_PROXY": "127.0.0.1,localhost",
        }  # fmt: skip
        command = [program, *self._flags()]
        self.controller = Process(command, self.folder / "output.log", env).start()
        half.callback(self.controller.kill)
        wait_for(lambda: "Serving webhook server" in self.controller.words(), 60, f"webhooks ({self.controller.log})")

    def _flags(self) -> list[str | Path]:
        if not self.program.config:
            return ["--port", str(self._port), "--certificates", self.folder]
        config = self.folder / "config.yaml"
        config.write_text(json.dumps({
            "apiVersion": self.program.config, "kind": "Configuration",
            "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
            "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(self.folder)},
        }))  # fmt: skip
        return ["--config", config]

    def _webhooks(self, authority: str) -> list[dict[str, Any]]:
        """What its module asks the API server to send it, of the pods only those of its own."""
        read = self.plane.kubectl("create", "--dry-run=client", "-o", "json", "-f", self._source / self.program.hooks)
        decoder, found, at = json.JSONDecoder(), [], 0
        while at < len(read.rstrip()):
            one, at = decoder.raw_decode(read, at)
            at += len(read[at:]) - len(read[at:].lstrip())
            one["metadata"] = {"name": f"{self.program.part}-{one['kind'].split('Webhook')[0].lower()}"}
            for hook in one["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": authority}
                if hook["rules"][0]["resources"] == ["pods"]:
                    hook["objectSelector"] = {"matchExpressions": [{"key": self.program.label, "operator": "Exists"}]}
            found.append(one)
        return found
