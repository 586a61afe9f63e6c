"""What `headroom preflight --prometheus` costs over a cluster's two weeks: time and memory of the whole command.

A stand-in for Prometheus in its own process answers with answers of full size (`preflight_server`), so that what is
measured is ours: asking, decoding, keeping on disk, assembling, and the answers themselves. With `--real` a smaller
cluster's samples are put into Debian's Prometheus, whose own time for its aggregates is then part of the figure. The
aim is 180 s and 1 GB on two cores for 200 workloads at 30 s.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np

from loadtests.bench.machine import command, machine
from loadtests.bench.preflight_server import BOUNDS
from tests.prometheus.backfilled import Backfilled, Exposition

STEP_S = 30

TARGET_S = 180.0
TARGET_MIB = 1000.0


def main(arguments: list[str]) -> int:
    """Run the command once and print the figures."""
    parser = argparse.ArgumentParser(prog="bench preflight_prometheus", description=__doc__)
    parser.add_argument("--real", action="store_true", help="ask Debian's Prometheus; 5 workloads, 2 pods, 2 days")
    parser.add_argument("--workloads", type=int)
    parser.add_argument("--pods", type=int, help="of each workload")
    parser.add_argument("--days", type=float)
    asked = parser.parse_args(arguments)
    workloads, pods, days = (5, 2, 2.0) if asked.real else (200, 10, 14.0)
    size = Size(asked.workloads or workloads, asked.pods or pods, asked.days or days)
    with tempfile.TemporaryDirectory() as folder:
        serving = _real(Path(folder), size) if asked.real else _stand_in(size)
        with serving as (url, window, server):
            figures = _measure(size, [url, *window], Path(folder) / "out")
            figures["server_processor_s"] = _processor_s(server)
    told = {"command": command("preflight_prometheus", arguments), **figures, "machine": machine()}
    print(json.dumps(told, indent=2))
    return 0


@dataclass(frozen=True, slots=True)
class Size:
    """What is read."""

    workloads: int
    pods: int
    days: float

    @property
    def steps(self) -> int:
        """Of each signal."""
        return round(self.days * 86_400 / STEP_S)


@contextmanager
def _stand_in(size: Size) -> Iterator[tuple[str, list[str], int]]:
    words = [sys.executable, "-m", "loadtests.bench.preflight_server", str(size.workloads), str(size.pods)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server.stdout as told:
        try:
            yield f"http://127.0.0.1:{int(told.readline())}", ["--days", f"{size.days:g}"], server.pid
        finally:
            server.terminate()
            server.wait()


@contextmanager
def _real(folder: Path, size: Size) -> Iterator[tuple[str, list[str], int]]:
    """Debian's Prometheus over samples of every 30 s, and the window they are in."""
    begin_s = 1_700_006_400
    at = begin_s + STEP_S * np.arange(-20, size.steps + 20)
    past, rng = Exposition(), np.random.default_rng(0)
    for workload, pod in product(range(size.workloads), range(size.pods)):
        labels = {"namespace": "bench", "pod": f"serve-{workload}-7d4b9c6f58-{pod:05}", "job": "pods"}
        load = rng.gamma(4.0, 0.25, at.size)
        done = np.cumsum(rng.poisson(STEP_S * load))
        for name, values in (
            ("num_requests_running", np.round(20 * load)),
            ("num_requests_waiting", np.round(np.maximum(20 * load - 30, 0))),
            ("kv_cache_usage_perc", np.minimum(0.3 * load, 1)),
            ("request_success_total", done),
            ("generation_tokens_total", 200 * done),
        ):
            past.add(f"vllm:{name}", labels, at.tolist(), values.tolist())
        for span, bound in product(("request_queue_time_seconds", "e2e_request_latency_seconds"), BOUNDS[::3]):
            counted = np.floor(done * (1.0 if bound == "+Inf" else 1 - np.exp(-float(bound) / 5)))
            past.add(f"vllm:{span}_bucket", {**labels, "le": bound}, at.tolist(), counted.tolist())
    end = datetime.fromtimestamp(begin_s + size.days * 86_400, UTC).isoformat()
    with Backfilled(folder / "prometheus", past) as server:
        server.wait_ready(120)
        yield server.url, ["--from", datetime.fromtimestamp(begin_s, UTC).isoformat(), "--to", end], server.pid


def _measure(size: Size, where: list[str], out: Path) -> dict[str, object]:
    words = [
        sys.executable, "-m", "autoscaler", "preflight", "--prometheus", *where, "--step", str(STEP_S), "--cold-start",
        "180", "--slots", "32", "--gpus", "1", "--out", str(out), "--json",
    ]  # fmt: skip
    begun_s = time.monotonic()
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - os.devnull is no path of a file
        child = subprocess.Popen(words, stdout=nowhere)
    read_s, peak_mib = None, 0.0
    while (ended := os.wait4(child.pid, os.WNOHANG))[0] == 0:
        time.sleep(0.2)
        peak_mib = max(peak_mib, _peak_mib(child.pid))
        if read_s is None and _is_read(out):
            read_s = time.monotonic() - begun_s
    whole_s = time.monotonic() - begun_s
    child.returncode, used = os.waitstatus_to_exitcode(ended[1]), ended[2]
    found = json.loads((out / "preflight.json").read_text())
    kept = sum(path.stat().st_size for path in (out / ".prometheus").iterdir())
    return {
        "workloads": len(found["workloads"]),
        "pods_each": size.pods,
        "steps": size.steps,
        "exit": child.returncode,
        "whole_s": round(whole_s, 1),
        "of_it_reading_s": None if read_s is None else round(read_s, 1),
        "processor_s": round(used.ru_utime + used.ru_stime, 1),
        "target_s": TARGET_S,
        "peak_rss_mib": round(peak_mib, 1),
        "target_mib": TARGET_MIB,
        "kept_on_disk_mib": round(kept / 2**20, 1),
        "seed": 0,
    }


def _processor_s(pid: int) -> float | None:
    """Processor time that a running process has used; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(pid: int) -> float:
    """The most a process has had so far; 0 where the system does not tell. Its own account begins with its parent's."""
    try:
        rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(row.split()[1]) / 2**10 for row in rows if row.startswith("VmHWM")), 0.0)


def _is_read(out: Path) -> bool:
    """Whether all parts have been fetched: the note of an unfinished run is gone by then."""
    parts = out / ".prometheus"
    return any(parts.glob("*.past")) and not (parts / "window.json").exists()
