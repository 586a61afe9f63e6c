"""Gangs of several pods on the real scheduler: what share of GPU-seconds they hold while they are not whole.

A control plane of plain programs, eight nodes of eight GPUs. Half of the gangs fill the nodes; the others are of a
queue with a guarantee, so that some of the first are stopped whole and start again later. Each runs for as long as it
is told, once it is whole. Bindings, ends and deletions are read from the API server's audit log.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

from loadtests.bench.machine import command, machine
from tests.cluster import crowd
from tests.cluster.batch_work import SETTINGS, Desk
from tests.cluster.controller import Controller
from tests.cluster.gangs import admitting_plane
from tests.real import parts

TARGET: Final = {"partial_ratio": 0.01, "longest_s": 30.0}
NODES: Final = 8
LONGEST_S: Final = 3600.0


def main(arguments: list[str]) -> int:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(prog="bench batch_whole", description=__doc__)
    parser.add_argument("--gangs", type=int, default=24)
    parser.add_argument("--run", type=float, default=60.0, metavar="SECONDS", help="of each gang, once it is whole")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    missing = parts.missing(parts.CONTROL_PLANE)
    if missing:
        print(f"bench batch_whole: {missing}", file=sys.stderr)
        return 2
    gangs = crowd.drawn(chosen.gangs, chosen.seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        admitting_plane(Path(folder), "batch", nodes=NODES) as plane,
        Controller(plane, **SETTINGS) as controller,
        Desk.open(plane, controller) as desk,
    ):
        controller.wait_leading(60.0)
        found = crowd.run(desk, gangs, NODES * 8, chosen.run, LONGEST_S)
    said = {"bench": "batch_whole", "command": command("batch_whole", arguments), "machine": machine()}
    scene = {"gangs": len(gangs), "pods": sum(pods for pods, _ in gangs.values()), "run_s": chosen.run}
    told = {name: round(value, 3) for name, value in asdict(found).items()}
    print(json.dumps({
        **said, "targets": TARGET, "scene": scene, "held": told, "partial_ratio": round(found.partial_ratio, 5),
    }, indent=1))  # fmt: skip
    return 0
