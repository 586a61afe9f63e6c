"""A Prometheus that scrapes fake pods each second, under the labels that a PodMonitor gives."""

import json
import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from tests.cluster.processes import Process, free_port, wait_for

CONFIG: Final = """\
global: {scrape_interval: 1s, scrape_timeout: 900ms}
scrape_configs:
  - job_name: pods
    file_sd_configs:
      - files: [targets.json]
        refresh_interval: 1s
"""


class Prometheus(Process):
    """Debian's Prometheus in `folder`; a context manager. It may be killed and started again, with what it kept."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._targets = folder / "targets.json"
        self._targets.write_text("[]")
        config = folder / "prometheus.yml"
        config.write_text(CONFIG)
        super().__init__(
            [
                "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            folder / "prometheus.log",
        )  # fmt: skip

    def scrape(self, namespace: str, pods: Mapping[str, str], port: int) -> None:
        """Scrape these pods, addresses by name, from now on, and those named before no more."""
        groups = [
            {"targets": [f"{ip}:{port}"], "labels": {"namespace": namespace, "pod": name}} for name, ip in pods.items()
        ]
        fresh = self._targets.with_suffix(".new")
        fresh.write_text(json.dumps(groups))
        os.replace(fresh, self._targets)  # noqa: PTH105 - a half-written file would be read

    def wait_ready(self, seconds: float = 30) -> None:
        """Return once it answers queries."""
        wait_for(self._answers, seconds, f"Prometheus ({self.log})", every_s=0.1)

    def value(self, query: str) -> float | None:
        """The value of the first series of a query now; None where there is none."""
        answer = json.loads(self._get(f"/api/v1/query?{urlencode({'query': query})}"))
        series = answer["data"]["result"]
        return float(series[0]["value"][1]) if series else None

    def _answers(self) -> bool:
        try:
            return bool(self._get("/-/ready"))
        except OSError:
            return False

    def _get(self, path: str) -> bytes:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, timeout=2) as answer:
            body: bytes = answer.read()
            return body
