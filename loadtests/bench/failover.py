"""How long nobody leads: a leader that is stopped, killed or frozen, until the other replica's first decision.

Two processes on a real API server, one workload. Each round starts a leader and a follower, ends the leader in one way,
and counts until the follower has written down a decision of its own.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from loadtests.bench.machine import command, machine
from tests.cluster.conftest import install
from tests.cluster.controller import Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.service import Service
from tests.real import parts

ENDS: Final[dict[str, Callable[[Controller], None]]] = {
    "graceful": lambda leader: leader.signal(signal.SIGTERM),
    "killed": lambda leader: leader.kill(),
    "frozen": lambda leader: leader.signal(signal.SIGSTOP),
}


def main(arguments: list[str]) -> int:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(prog="bench failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="per way of ending")
    chosen = parser.parse_args(arguments)
    missing = parts.missing(parts.CONTROL_PLANE)
    if missing:
        print(f"bench failover: {missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, Plane(Path(folder), gpus=0) as plane, Engines() as engines:
        install(plane)
        service = Service(plane, engines, "default", "chat", replicas=2)
        service.wait_ready(2)
        took = {name: [_round(plane, end, f"{name}-{n}") for n in range(chosen.rounds)] for name, end in ENDS.items()}
    figures = {
        name: {"p50_s": round(float(np.median(some)), 2), "max_s": round(max(some), 2)} for name, some in took.items()
    }
    said = {"bench": "failover", "command": command("failover", arguments), "machine": machine()}
    print(json.dumps({**said, "rounds": chosen.rounds, "until_first_decision": figures}, indent=1))
    return 0


def _round(plane: Plane, end: Callable[[Controller], None], name: str) -> float:
    with Controller(plane, f"{name}-first") as first:
        first.wait_leading()
        wait_for(first.decisions, 30, "the leader's first decision")
        with Controller(plane, f"{name}-second") as second:
            wait_for(lambda: _follows(second), 30, "the follower")
            began_s = time.monotonic()
            end(first)
            wait_for(second.decisions, 60, "the follower's first decision", every_s=0.02)
            return time.monotonic() - began_s


def _follows(controller: Controller) -> bool:
    try:
        return bool(controller.get("/api/status")["workloads"])
    except OSError:
        return False
