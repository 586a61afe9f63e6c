"""Machines that compete for a Lease on one loop's virtual time, and everything that can happen to them.

A machine has its own wall clock and its own origin of monotonic time, a network that can fail in several ways, and it
can be frozen: then nothing it waits for ends before it is thawed. On it runs one process after another, each a fresh
`Elector`. `Contest.seen` is every instant at which more than one of them might write.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from autoscaler.adapters.kube.answers import Answer, KubeError, refusal
from autoscaler.adapters.kube.lease import Elector
from autoscaler.ports import Fault
from tests.kube.apis import HTML, Apis, Reply

LEASE = "/apis/coordination.k8s.io/v1/namespaces/headroom/leases/headroom"
WIRE_S = 0.004
TICK_S = 0.0001
LOOK_S = 0.05
"""Between two looks at who might write, besides one after every answer and every thaw."""


class Net(Enum):
    """What a machine's network does to a request."""

    FINE = auto()
    CUT = auto()
    """Refused at once."""
    LOST = auto()
    """Never arrives."""
    DEAF = auto()
    """Arrives and is carried out; the answer is lost."""
    LATE = auto()
    """Arrives and is carried out when its sender has long given up; the answer is lost."""
    HTML_500 = auto()
    HTML_200 = auto()
    TOO_MANY = auto()
    """429 with a Retry-After of an hour."""
    ASTRAY = auto()
    """A proxy answers, with 404 to everything."""


LATE_S = 6.0


class Machine:
    """One machine: a clock, a network, and the process that runs on it."""

    def __init__(self, contest: "Contest", number: int) -> None:
        self.contest = contest
        self.number = number
        self.wall_s = 0.0
        self.net = Net.FINE
        self.frozen_until_s = 0.0
        self.lives = 0
        self.calls = 0
        self.elector: Elector | None = None
        self.process: asyncio.Task[None] | None = None
        self.led: list[float] = []
        """When its processes came to lead."""

    def now(self) -> float:
        return 1.8e9 + self.wall_s + self._loop_s()

    def monotonic(self) -> float:
        return 1000.0 * (self.number + 1) + self._loop_s()

    async def sleep_until(self, monotonic_s: float, wake: asyncio.Event | None = None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, monotonic_s - self.monotonic())):
                await (wake.wait() if wake else asyncio.Event().wait())
        await self._thaw()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
        admit: Callable[[], bool] = lambda: True,
    ) -> Answer:
        assert admit()
        self.calls += 1
        end_s = self._loop_s() + timeout_s
        call = f"{method} {path}"
        reply: Reply | None = None

        def carry_out() -> Reply:
            return self.contest.apis.answer(method, path, content_type, body or b"")

        _answered_elsewhere(self.net, call)
        match self.net:
            case Net.HTML_200:
                return Answer(200, HTML, {"Content-Type": "text/html"})
            case Net.LATE:
                asyncio.get_running_loop().call_later(LATE_S, carry_out)
            case Net.DEAF:
                carry_out()
            case Net.FINE if timeout_s > WIRE_S:
                await asyncio.sleep(WIRE_S / 2)
                reply = carry_out()
                await asyncio.sleep(WIRE_S / 2)
        if reply is None:
            await asyncio.sleep(max(0.0, end_s - self._loop_s()))
        await self._thaw()
        if reply is None or self._loop_s() > end_s:
            raise KubeError(Fault.TIMEOUT, f"{call}: no answer within {timeout_s:g} s")
        asyncio.get_running_loop().call_soon(self.contest.look)
        if not 200 <= reply.status < 300:
            raise refusal(call, reply.status, reply.headers, reply.body)
        return Answer(reply.status, reply.body, reply.headers)

    def leads(self) -> bool:
        """Whether its process might write now; a frozen one cannot."""
        return self.elector is not None and not self.frozen and self.elector.may_write()

    @property
    def frozen(self) -> bool:
        return self._loop_s() < self.frozen_until_s

    def freeze(self, for_s: float) -> None:
        """Stop everything on it; the look at its end comes before anything runs again."""
        self.frozen_until_s = max(self.frozen_until_s, self._loop_s() + for_s)
        asyncio.get_running_loop().call_at(self.frozen_until_s + TICK_S, self.contest.look)

    def start(self, group: asyncio.TaskGroup) -> None:
        """Start a process."""
        self.lives += 1
        self.elector = Elector(
            self,
            namespace="headroom",
            name="headroom",
            identity=f"machine-{self.number}-{self.lives}",
            address=f"127.0.0.{self.number + 1}:8080",
            clock=self,
        )
        self.process = group.create_task(self._live(self.elector))

    def kill(self) -> None:
        """End the process as SIGKILL does."""
        assert self.process is not None
        self.process.cancel()
        self.elector = None

    async def stop(self) -> None:
        """End the process as SIGTERM does: it gives the Lease back."""
        elector, self.elector = self.elector, None
        assert self.process is not None
        self.process.cancel()
        if elector is not None and not self.frozen:
            await elector.release()

    async def _live(self, elector: Elector) -> None:
        await elector.campaign()
        self.led.append(self._loop_s())
        await elector.hold()
        self.elector = None

    async def _thaw(self) -> None:
        while (left_s := self.frozen_until_s - self._loop_s()) > 0:  # noqa: ASYNC110 # frozen: nothing wakes it
            await asyncio.sleep(left_s + 2 * TICK_S)

    def _loop_s(self) -> float:
        return asyncio.get_running_loop().time()


def _answered_elsewhere(net: Net, call: str) -> None:
    """Raise what a caller gets where the request does not reach the server and somebody says so."""
    match net:
        case Net.CUT:
            raise KubeError(Fault.UNAVAILABLE, f"{call}: connection refused")
        case Net.HTML_500:
            raise refusal(call, 500, {"Content-Type": "text/html"}, HTML)
        case Net.TOO_MANY:
            raise refusal(call, 429, {"Retry-After": "3600"}, b"too many requests")
        case Net.ASTRAY:
            raise refusal(call, 404, {}, b"404 page not found")
        case _:
            return


@dataclass(frozen=True)
class Blow:
    """Something that happens at `at_s` to a machine, or to the Lease; `for_s` where it lasts."""

    at_s: float
    machine: int
    kind: Net | str
    for_s: float


FATES = ("freeze", "kill", "stop", "clock", "delete lease", "erase holder", "touch lease")


class Contest:
    """Some machines, one API server, and what was seen."""

    def __init__(self, machines: int = 3, *, lease: dict[str, Any] | None = None) -> None:
        self.apis = Apis()
        if lease is not None:
            self.apis.put(LEASE, {"kind": "Lease", "spec": lease})
        self.machines = [Machine(self, number) for number in range(machines)]
        self.seen: list[tuple[float, list[int]]] = []

    def leaders(self) -> list[int]:
        return [machine.number for machine in self.machines if machine.leads()]

    def look(self) -> None:
        leaders = self.leaders()
        if len(leaders) > 1:
            self.seen.append((asyncio.get_running_loop().time(), leaders))

    async def play(self, blows: Sequence[Blow], until_s: float) -> None:
        """Let everything happen. A process that ended is followed by another after half a second."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._revive(machine, group)) for machine in self.machines]
            tasks += [group.create_task(self._strike(blow)) for blow in blows]
            while asyncio.get_running_loop().time() < until_s:
                self.look()
                await asyncio.sleep(LOOK_S)
            for task in [*tasks, *(m.process for m in self.machines if m.process)]:
                task.cancel()

    async def _revive(self, machine: Machine, group: asyncio.TaskGroup) -> None:
        while True:
            machine.start(group)
            assert machine.process is not None
            await asyncio.wait([machine.process])
            await asyncio.sleep(0.5)

    async def _strike(self, blow: Blow) -> None:
        await asyncio.sleep(blow.at_s)
        machine = self.machines[blow.machine % len(self.machines)]
        match blow.kind:
            case Net() as net:
                machine.net = net
                await asyncio.sleep(blow.for_s)
                machine.net = Net.FINE
            case "freeze":
                machine.freeze(blow.for_s)
            case "kill":
                machine.kill()
            case "stop":
                await machine.stop()
            case "clock":
                machine.wall_s += 100.0 * (blow.for_s - 5.0)
            case "delete lease":
                self.apis.objects.pop(LEASE, None)
            case "erase holder" if LEASE in self.apis.objects:
                self.apis.edit(LEASE, spec=self.apis.objects[LEASE]["spec"] | {"holderIdentity": ""})
            case "touch lease" if LEASE in self.apis.objects:
                self.apis.edit(LEASE)
