"""What `headroom preflight --prometheus` costs over a cluster's two weeks: time and memory of the whole command.

A stand-in for Prometheus in its own process answers with answers of full size (`preflight_server`), so that what is
measured is ours: asking, decoding, keeping on disk, assembling, and the answers themselves. A real server adds the time
it takes to compute its aggregates. The aim is 180 s and 1 GB on two cores for 200 workloads at 30 s.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loadtests.bench.machine import command, machine

TARGET_S = 180.0
TARGET_MIB = 1000.0


def main(arguments: list[str]) -> int:
    """Run the command once and print the figures."""
    parser = argparse.ArgumentParser(prog="bench preflight_prometheus", description=__doc__)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--pods", type=int, default=10, help="of each workload")
    parser.add_argument("--days", type=float, default=14.0)
    parser.add_argument("--step", type=int, default=30)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [sys.executable, "-m", "loadtests.bench.preflight_server", str(asked.workloads), str(asked.pods)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            figures = _measure(asked, f"http://127.0.0.1:{port}", Path(folder) / "out")
        finally:
            server.terminate()
            server.wait()
            if server.stdout is not None:
                server.stdout.close()
    print(
        json.dumps({"command": command("preflight_prometheus", arguments), **figures, "machine": machine()}, indent=2)
    )
    return 0


def _measure(asked: argparse.Namespace, url: str, out: Path) -> dict[str, object]:
    words = [
        sys.executable, "-m", "autoscaler", "preflight", "--prometheus", url, "--days", str(asked.days), "--step",
        str(asked.step), "--cold-start", "180", "--slots", "32", "--gpus", "1", "--out", str(out), "--json",
    ]  # fmt: skip
    begun_s = time.monotonic()
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - os.devnull is no path of a file
        child = subprocess.Popen(words, stdout=nowhere)
    read_s = None
    while (ended := os.wait4(child.pid, os.WNOHANG))[0] == 0:
        time.sleep(0.2)
        if read_s is None and _is_read(out):
            read_s = time.monotonic() - begun_s
    whole_s = time.monotonic() - begun_s
    child.returncode, used = os.waitstatus_to_exitcode(ended[1]), ended[2]
    found = json.loads((out / "preflight.json").read_text())
    kept = sum(path.stat().st_size for path in (out / ".prometheus").iterdir())
    return {
        "workloads": len(found["workloads"]),
        "steps": round(asked.days * 86_400 / asked.step),
        "exit": child.returncode,
        "whole_s": round(whole_s, 1),
        "of_it_reading_s": None if read_s is None else round(read_s, 1),
        "processor_s": round(used.ru_utime + used.ru_stime, 1),
        "target_s": TARGET_S,
        "peak_rss_mib": round(used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10), 1),
        "target_mib": TARGET_MIB,
        "kept_on_disk_mib": round(kept / 2**20, 1),
        "seed": "none: the stand-in's values are drawn by kind and signal",
    }


def _is_read(out: Path) -> bool:
    """Whether all parts have been fetched: the note of an unfinished run is gone by then."""
    parts = out / ".prometheus"
    return any(parts.glob("*.past")) and not (parts / "window.json").exists()
