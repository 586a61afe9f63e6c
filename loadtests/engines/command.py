"""`loadtests engines`: servers that behave like engines, on loopback addresses, until Ctrl-C.

Enters: how many, their speed, their warm-up. Leaves: a line for each process and one with every address (JSON on
request). It starts the processes, waits for them, and ends them; what a server does is the business of the processes.
"""

import argparse
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

from autoscaler.errors import HeadroomError, InputError
from loadtests.engines.profile import BUILT_IN, STEP_TOKENS, read_speed

PER_PROCESS = 50
"""Servers of one process, unless told otherwise."""

FIRST = "127.30.0.1"
STARTED_S = 60.0


def main(arguments: list[str]) -> int:
    """Serve until a signal; 0 then, 1 where a process died, 2 for arguments that cannot be used."""
    given = _parser().parse_args(arguments)
    try:
        addresses = _addresses(given.first, given.count)
        order = _order(given)
        _check_stages(order)
        _check_report(given.json)
        command = shlex.join(["python3", "dev.py", "loadtests", "engines", *arguments])
        with serving(addresses, order, given.processes) as children:
            _tell(given.json, addresses, given.port, command, children)
            return _wait(children)
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except ChildProcessError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loadtests engines", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="OpenAI-compatible streaming servers with continuous batching from a measured profile, no GPU.",
        epilog="Each server's next port takes faults: curl -d '{\"kind\": \"slow\", \"factor\": 4, \"for_s\": 10}' "
        "http://127.30.0.1:8001/fault\n(crash, hang, wedge, slow; curl -X DELETE heals; GET / tells the state).",
    )  # fmt: skip
    add = parser.add_argument
    add("--count", type=int, default=1, help="servers, each on an address of its own (default 1)")
    add("--processes", type=int, help=f"processes that share them (default: one for {PER_PROCESS}, at most the cores)")
    add("--first", default=FIRST, help=f"address of the first server, below 127.0.0.0/8 (default {FIRST})")
    add("--port", type=int, default=8000, help="port of all of them; the next one is for faults (default 8000)")
    add("--pages", choices=["vllm", "sglang"], default="vllm", help="whose metrics names (default vllm)")
    add("--model", default="model", help="the model's name (default 'model')")
    add("--profile", type=Path, default=BUILT_IN, help="CSV of measured latencies (default: Llama 2 70B, four H100)")
    add("--engine", metavar="MODEL/GPU/TP", help="which one, of a profile that has several")
    add("--slots", type=int, help="requests in the batch at once (default: the largest batch measured)")
    add("--kv-tokens", type=int, help="tokens that the KV cache holds; needed with --profile")
    add("--step-tokens", type=int, default=STEP_TOKENS, help=f"tokens of one step (default {STEP_TOKENS})")
    add("--warm-up", default="", metavar="NAME=S,...", help="stages of a start, e.g. download=5,weights=10,graphs=5")
    add("--json", type=Path, help="write addresses and process numbers there once all are up")
    return parser


def _order(given: argparse.Namespace) -> dict[str, object]:
    for name in ("count", "processes", "slots", "kv_tokens", "step_tokens"):
        value = getattr(given, name)
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")
    if not 1 <= given.port < 65535:
        raise InputError(f"--port is {given.port}; it must be 1 to 65534, as the next one is used too")
    return {
        "port": given.port, "profile": str(given.profile), "model": given.model, "pages": given.pages,
        "engine": given.engine, "slots": given.slots, "kv_tokens": given.kv_tokens, "step_tokens": given.step_tokens,
        "stages": _stages(given.warm_up),
    }  # fmt: skip


def _stages(text: str) -> list[tuple[str, float]]:
    stages = []
    for part in filter(None, text.split(",")):
        name, _, seconds = part.partition("=")
        try:
            length_s = float(seconds)
        except ValueError:
            length_s = math.nan
        if not name or not 0 <= length_s < math.inf:
            raise InputError(f"--warm-up: {part!r} is not NAME=SECONDS")
        stages.append((name, length_s))
    return stages


def _check_stages(order: dict[str, object]) -> None:
    """Read the profile here too, so that a faulty one is told of before anything starts."""
    read_speed(
        Path(str(order["profile"])),
        only=None if order["engine"] is None else str(order["engine"]),
        kv_tokens=None if order["kv_tokens"] is None else int(str(order["kv_tokens"])),
    )


def _check_report(path: Path | None) -> None:
    """Refuse a place that cannot be written to before anything starts."""
    if path is not None:
        from autoscaler.cli.output import check_writable  # noqa: PLC0415 - brings much that --help need not load

        check_writable([path])


def _addresses(first: str, count: int) -> list[str]:
    try:
        begin = IPv4Address(first)
    except ValueError as error:
        raise InputError(f"--first {first!r}: no IPv4 address; give one of 127.0.0.0/8") from error
    last = begin + max(0, count - 1)
    if not (begin.is_loopback and last.is_loopback):
        raise InputError(f"--first {first}: {count} addresses from there are not all in 127.0.0.0/8")
    return [str(begin + number) for number in range(count)]


@contextmanager
def serving(
    addresses: list[str], order: dict[str, object], processes: int | None = None
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that serve the addresses; ended on leaving. ChildProcessError where one does not come up.

    `order` is a `worker.Order` without addresses.
    """
    wanted = processes or min(os.cpu_count() or 1, math.ceil(len(addresses) / PER_PROCESS))
    children: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(min(wanted, len(addresses))):
            child = subprocess.Popen(
                [sys.executable, "-m", "loadtests.engines.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[2], start_new_session=True,  # Ctrl-C is for the starter
            )  # fmt: skip
            children.append(child)
            assert child.stdin is not None
            child.stdin.write(json.dumps({**order, "addresses": addresses[number::wanted]}).encode() + b"\n")
            child.stdin.flush()
        for child in children:
            _await_up(child)
        yield children
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.communicate()


def _await_up(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    late = threading.Timer(STARTED_S, child.kill)
    late.start()
    try:
        if not child.stdout.readline():
            raise ChildProcessError(f"process {child.pid} of servers did not come up; its own words are above")
    finally:
        late.cancel()


def _tell(
    path: Path | None, addresses: list[str], port: int, command: str, children: list[subprocess.Popen[bytes]]
) -> None:
    shown = addresses[0] if len(addresses) == 1 else f"{addresses[0]} to {addresses[-1]}"
    print(f"{len(addresses)} servers at {shown}, port {port}, faults on port {port + 1}; Ctrl-C ends them", flush=True)
    if path is not None:
        from autoscaler.cli.output import write_atomically  # noqa: PLC0415 - brings much that --help need not load

        report = {
            "loadtest": "engines", "command": command, "processes": [child.pid for child in children],
            "servers": [f"http://{address}:{port}" for address in addresses],
            "faults": [f"http://{address}:{port + 1}/fault" for address in addresses],
        }  # fmt: skip
        with write_atomically(path) as file:
            file.write((json.dumps(report, indent=1) + "\n").encode())


def _wait(children: list[subprocess.Popen[bytes]]) -> int:
    """Return 0 on SIGINT or SIGTERM, 1 when a process ends by itself."""
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    while not told.wait(0.5):
        dead = [child.pid for child in children if child.poll() is not None]
        if dead:
            raise ChildProcessError(f"process {dead[0]} of servers ended by itself; the others are ended too")
    return 0
