"""A real Prometheus over series that were written by hand: promtool makes its blocks, so its past is known exactly."""

import subprocess
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.cluster.processes import Process, free_port, wait_for

FOREVER: Final = "100y"
"""Debian's Prometheus would delete blocks that are older than 15 days."""


@dataclass
class Exposition:
    """Samples by series, in OpenMetrics' own order: a metric's series after each other, each from old to new."""

    families: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, labels: Mapping[str, str], t_s: Iterable[float], values: Iterable[float]) -> None:
        """Samples of one series."""
        text = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items())
        rows = self.families.setdefault(name, [])
        rows += [f"{name}{{{text}}} {float(value)!r} {float(at)!r}" for at, value in zip(t_s, values, strict=True)]

    def write(self, path: Path) -> None:
        """All of it, as a file that promtool reads."""
        with path.open("w") as file:
            for name, rows in self.families.items():
                file.write(f"# TYPE {name} unknown\n")
                file.writelines(f"{row}\n" for row in rows)
            file.write("# EOF\n")


class Backfilled(Process):
    """Prometheus in `folder` with the samples of an exposition and `flags` of its own; a context manager."""

    def __init__(self, folder: Path, exposition: Exposition, flags: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        text, data = folder / "past.om", folder / "data"
        exposition.write(text)
        done = subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", text, data],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        text.unlink()
        (folder / "prometheus.yml").write_text("scrape_configs: []\n")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        super().__init__(
            [
                "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={data}",
                f"--storage.tsdb.retention.time={FOREVER}", f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn", *flags,
            ],
            folder / "prometheus.log",
        )  # fmt: skip

    def wait_ready(self, seconds: float = 60) -> None:
        """Return once it answers queries."""
        wait_for(lambda: _ready(self.url), seconds, f"Prometheus ({self.log})", every_s=0.1)


def _ready(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/-/ready", timeout=2) as answer:
            return bool(answer.read())
    except OSError:
        return False


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
