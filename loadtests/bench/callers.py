"""How soon KEDA's calls reach the next leader: behind one address, and behind a name whose address changes.

KEDA's real operator asks servers of ours for three ScaledObjects each. A server stops, another starts after as long as
a leader takes to follow, and the time runs from its first second to its first call. Behind one address both are reached
at the same one, as through a Service with an address of its own. Behind a name the second has another address, which
the name server gives from its first second on, as for a headless Service; a cluster's own is some seconds later.
"""

import argparse
import json
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from autoscaler.adapters.keda.answers import Served
from loadtests.bench.machine import command, machine
from tests.cluster.keda import Keda, scaled_object
from tests.cluster.manifests import deployment
from tests.cluster.plane import Plane
from tests.cluster.processes import free_port, wait_for
from tests.cluster.scaler import Scaler
from tests.real import parts

NAMESPACE: Final = "callers"
OBJECTS: Final = 3
GAPS_S: Final = {"stopped": 0.8, "killed": 10.4}
"""Nobody serves for so long, as `bench failover` measured."""
WAYS: Final = ("address", "name")
STEADY_S: Final = 45.0
"""Longer than the 30 s for which grpc-go looks no name up again: what comes after is the usual case."""
PATIENCE_S: Final = 150.0


def main(arguments: list[str]) -> int:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(prog="bench callers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="per way of ending and of being found; all at once")
    chosen = parser.parse_args(arguments)
    missing = parts.missing((*parts.CONTROL_PLANE, "keda"))
    if missing:
        print(f"bench callers: {missing}", file=sys.stderr)
        return 2
    flags = ("--horizontal-pod-autoscaler-sync-period=2s",)
    with ExitStack() as stack:
        names: dict[str, str] = {}
        resolver = stack.enter_context(naming(names))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plane = stack.enter_context(Plane(folder, nodes=0, gpus=0, aggregates=True, manager_flags=flags))
        stack.enter_context(Keda(plane))
        plane.kubectl("create", "namespace", NAMESPACE)
        cases = [(way, end) for way in WAYS for end in GAPS_S for _ in range(chosen.rounds)]
        pairs = [Pair(way, end, number, names, resolver) for number, (way, end) in enumerate(cases)]
        for pair in pairs:
            stack.enter_context(pair.first)
            pair.apply(plane)
        wait_for(lambda: all(pair.first.book.asked > 4 * OBJECTS for pair in pairs), 300, "KEDA's calls", every_s=1.0)
        time.sleep(STEADY_S)
        with ThreadPoolExecutor(len(pairs)) as pool:
            took = list(pool.map(lambda pair: pair.hand_over(stack), pairs))
    figures = {
        way: {end: sorted(s for case, s in zip(cases, took, strict=True) if case == (way, end)) for end in GAPS_S}
        for way in WAYS
    }
    said = {"bench": "callers", "command": command("callers", arguments), "machine": machine()}
    print(json.dumps({**said, "until_first_call_s": figures}, indent=1))
    return 0


class Pair:
    """A server and the one that follows it, with ScaledObjects of their own."""

    def __init__(self, way: str, end: str, number: int, names: dict[str, str], resolver: int) -> None:
        self.way, self.end = way, end
        self._key = f"{way}-{end}-{number}"
        self._names = names
        port = free_port()
        first, self._next = f"127.0.1.{number + 1}", f"127.0.{1 if way == 'address' else 2}.{number + 1}"
        self.first, self.second = Scaler(host=first), Scaler(host=self._next)
        for server in (self.first, self.second):
            server.port = port
            server.book.answers |= {(NAMESPACE, f"{self._key}-{n}"): Served(1, 1) for n in range(OBJECTS)}
        names[self._key] = first
        self._address = f"{first}:{port}" if way == "address" else f"dns://127.0.0.1:{resolver}/{self._key}.test:{port}"

    def apply(self, plane: Plane) -> None:
        """Make the ScaledObjects."""
        for number in range(OBJECTS):
            name = f"{self._key}-{number}"
            plane.apply(deployment(NAMESPACE, name, 8000, replicas=1, gpus=0))
            plane.apply(scaled_object(NAMESPACE, name, self._address, minReplicaCount=1, push=True))

    def hand_over(self, stack: ExitStack) -> float:
        """Seconds from the second server's start to its first call; `PATIENCE_S` where none comes."""
        self.first.stop()
        time.sleep(GAPS_S[self.end])
        self._names[self._key] = self._next
        stack.enter_context(self.second)
        begun_s = time.monotonic()
        while not self.second.book.asked and time.monotonic() - begun_s < PATIENCE_S:
            time.sleep(0.02)
        return round(time.monotonic() - begun_s, 1)


@contextmanager
def naming(names: dict[str, str]) -> Iterator[int]:
    """A name server for names under ``test``; its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.bind(("127.0.0.1", 0))
        door.settimeout(0.2)
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                try:
                    question, caller = door.recvfrom(2048)
                except TimeoutError:
                    continue
                door.sendto(_answer(question, names), caller)

        serving = threading.Thread(target=serve, name="names")
        serving.start()
        try:
            yield door.getsockname()[1]
        finally:
            ended.set()
            serving.join()


def _answer(question: bytes, names: dict[str, str]) -> bytes:
    """One address for a name that is known, by RFC 1035."""
    labels, at = [], 12
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode())
        at += 1 + length
    (kind,) = struct.unpack(">H", question[at + 1 : at + 3])
    ip = names.get(labels[0]) if labels[1:] == ["test"] else None
    given = b""
    if ip is not None and kind == 1:
        given = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton(ip)
    head = struct.pack(">HHHHH", 0x8180 | (0 if ip else 3), 1, 1 if given else 0, 0, 0)
    return question[:2] + head + question[12 : at + 5] + given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
