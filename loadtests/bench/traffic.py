"""What one process of load carries, and what servers that behave like engines weigh.

One server in a process of its own answers thousands of streams at once, each with a token every 0.3 s; one worker
opens them. The events of the seconds in which all are open, over the worker's processor time in them, are what a core
carries. Then servers are started and left idle, and their processes' resident memory is read.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from loadtests.bench.machine import command, machine
from loadtests.engines.command import serving
from loadtests.engines.profile import BUILT_IN
from loadtests.traffic.lengths import Lengths
from loadtests.traffic.live import watching
from loadtests.traffic.report import Run
from loadtests.traffic.run import Plan, execute
from loadtests.traffic.schedule import drawn
from loadtests.traffic.shapes import Shape
from loadtests.traffic.tally import Second, Tally
from loadtests.traffic.target import Target

TARGET = {"events_per_s": 15_000, "open_streams": 5_000, "servers_mib": 2e9 / 2**20}
TOKEN_S = 0.3
ADDRESS, PORT = "127.31.0.1", 8400
HEADER = "model,gpu_model,tp,prompt_tokens,batch,output_tokens,prefill_ms,tpot_ms\n"


def carrying(streams: int, opening_s: float, hold_s: float, seed: int) -> dict[str, object]:
    """Open `streams` evenly within `opening_s`, keep them for `hold_s` more."""
    tokens = max(2, round((opening_s + hold_s) / TOKEN_S))
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "flat.csv"
        profile.write_text(f"{HEADER}flat,none,1,8,1,1,5,{1e3 * TOKEN_S}\n")
        order: dict[str, object] = {
            "port": PORT, "profile": str(profile), "model": "m", "slots": 2 * streams,
            "kv_tokens": 4 * streams * tokens, "step_tokens": 16 * streams,
        }  # fmt: skip
        schedule = drawn(
            Shape("constant", streams / opening_s, 0.0, opening_s, 0.0, 1.0, 1.0), prompts=Lengths("constant", 8),
            outputs=Lengths("constant", tokens), tenants=1000, seed=seed, even=True,
        )  # fmt: skip
        plan = Plan(
            command="", seed=seed, target=Target(f"http://{ADDRESS}:{PORT}"), model="m", headers={}, ignore_eos=True,
            schedule=schedule, workers=1, timeout_s=120.0, most_open=2 * streams, stop_errors=2.0,
        )  # fmt: skip
        console = Console(stderr=True, force_terminal=False)
        with serving([ADDRESS], order), watching(console, len(schedule)) as view:
            run, tally = asyncio.run(execute(plan, view))
    return _figures(run, tally, opening_s)


def _figures(run: Run, tally: Tally, opening_s: float) -> dict[str, object]:
    last = int(run.took_s) - 1
    whole = {
        at: second for at, second in tally.seconds.items() if opening_s + 1.0 <= at < last and not second.completed
    }
    events, cpu_s = sum(second.events for second in whole.values()), sum(second.cpu_s for second in whole.values())
    most = max((second for second in tally.seconds.values()), key=lambda second: second.events, default=Second())
    return {
        "streams": tally.due, "completed": tally.completed, "failures": tally.failures, "open_most": tally.open_most,
        "seconds_with_all_open": len(whole), "events": events, "events_per_s": round(events / max(1, len(whole))),
        "busiest_second": {"events": most.events, "cpu_s": round(most.cpu_s, 3)},
        "core_ratio": round(cpu_s / max(1, len(whole)), 3),
        "events_per_cpu_s": round(events / cpu_s) if cpu_s else None,
        "opening_ms_per_stream": round(
            1e3 * sum(s.cpu_s for at, s in tally.seconds.items() if at < opening_s) / tally.due, 3
        ),
        "sent_late_s": tally.late_s.told(), "ttft_s": tally.ttft_s.told(), "rss_mib": round(tally.rss_mib, 1),
    }  # fmt: skip


def weighing(servers: int) -> dict[str, object]:
    """Start so many idle servers and read what their processes hold."""
    addresses = [f"127.32.{number // 250}.{number % 250 + 1}" for number in range(servers)]
    order: dict[str, object] = {"port": PORT, "profile": str(BUILT_IN), "model": "m"}
    with serving(addresses, order) as children:
        held = [_rss_mib(child.pid) for child in children]
    return {"servers": servers, "processes": len(held), "rss_mib": round(sum(held), 1)}


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no resident memory")


def main(arguments: list[str]) -> int:
    """Print the figures as JSON; the exit code is 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="bench traffic", description=__doc__)
    parser.add_argument("--streams", type=int, default=5500)
    parser.add_argument("--opening", type=float, default=6.0, help="seconds in which they are opened")
    parser.add_argument("--hold", type=float, default=6.0, help="seconds for which all are open")
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    report = {
        "bench": "traffic", "command": command("traffic", arguments), "seed": given.seed, "machine": machine(),
        "targets": TARGET, "load": carrying(given.streams, given.opening, given.hold, given.seed),
        "servers": weighing(given.servers),
    }  # fmt: skip
    json.dump(report, sys.stdout, indent=2)
    print()
    return 0
