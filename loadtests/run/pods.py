"""The servers behind the pods: one is started for each pod, warms up, makes the pod ready, and drains when it goes.

Enters: changes of pods as the API server tells them. Leaves: a listening engine at each pod's own address, the pods
that take requests, and each pod's life. It plays the kubelet's part of readiness: a fake pod is held until its server
answers. It knows nothing of who wants how many, nor of traffic.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.objects import Pod
from autoscaler.ports import Clock
from loadtests.engines.engine import Engine
from loadtests.engines.profile import Speed
from loadtests.engines.server import Server, Stages
from loadtests.run.foreign import Foreign

MODEL = "model"
LOOK_S = 0.05
DRAIN_S = 60.0
"""A pod that goes finishes what it has for so long at most."""


@dataclass(slots=True, eq=False)
class Life:
    """One pod. Instants are the event loop's seconds; None is "not yet"."""

    name: str
    begun_s: float
    """When the API server first told of it."""
    uid: str = ""
    address: str = ""
    ready_s: float | None = None
    gone_s: float | None = None
    """When it was told to go: it gets no more requests and finishes those it has."""
    ended_s: float | None = None
    """When its server had ended."""
    busy_s: float = 0.0
    """In which its engine ran a step."""
    server: Server | Foreign | None = None
    warm: bool = False
    """Whether it found a warm slot."""
    going: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def serving(self) -> bool:
        """Whether requests may be sent to it."""
        return self.ready_s is not None and self.gone_s is None


Made = Callable[[str, int, Stages], Server | Foreign]
"""Makes the server of an address and port that warms up in these stages; its `run` is its life."""


def ours(speed: Speed, clock: Clock, pages: str) -> Made:
    """Servers of our own make."""
    return lambda address, port, stages: Server(address, port, Engine(speed, clock), MODEL, pages, stages)


def dynamos(speed: Speed, clock: Clock, folder: Path) -> Made:
    """Servers of Dynamo's make; `folder` is one that `foreign.prepare` was given."""
    return lambda address, port, stages: Foreign(
        address, port, MODEL, speed=speed, folder=folder, clock=clock, stages=stages
    )


class Pods:
    """All pods of one workload, past ones included. `told` is called whenever those that serve have changed."""

    def __init__(
        self, made: Made, clock: Clock, *, port: int, stages: Stages, lift: Callable[[str], Awaitable[None]],
        told: Callable[[], None], warm_slots: int = 0,
    ) -> None:  # fmt: skip
        self.lives: dict[str, Life] = {}
        self.stages: Stages = ()
        """Of pods that begin from now on; those of the first instant have none."""
        self.later = stages
        self.slots_left = warm_slots
        """Warm slots that no pod has taken yet; whoever finds one has the last of the stages only."""
        self._made, self._clock, self._port = made, clock, port
        self._lift, self._told = lift, told
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Keep servers until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.Event().wait()

    @property
    def bases(self) -> tuple[str, ...]:
        """Where requests may be sent."""
        return tuple(f"http://{life.address}:{self._port}" for life in self.lives.values() if life.serving)

    @property
    def waiting(self) -> int:
        """Requests in all queues."""
        return sum(server.waiting for server in self._servers())

    @property
    def running(self) -> int:
        """Requests in all batches."""
        return sum(server.running for server in self._servers())

    @property
    def kv_used_ratio(self) -> float:
        """Share of its memory that the fullest KV cache uses."""
        return max((server.kv_used_ratio for server in self._servers()), default=0.0)

    @property
    def busy_s(self) -> float:
        """Seconds in which engines ran steps, of all pods that ever were."""
        for life in self.lives.values():
            if life.server is not None:
                life.busy_s = life.server.busy_s
        return sum(life.busy_s for life in self.lives.values())

    def heard(self, change: Change[Pod]) -> None:
        """Take one change of a pod."""
        pod, now_s = change.new, self._clock.monotonic()
        name = change.key.rpartition("/")[2]
        if pod is None or pod.metadata.deletion_timestamp is not None:
            self._gone(name, now_s)
            return
        life = self.lives.setdefault(name, Life(name, now_s, pod.metadata.uid))
        if not life.address and pod.status.pod_ip:
            assert self._group is not None
            life.address = pod.status.pod_ip
            self._group.create_task(self._live(life), name=name)
        ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
        if ready and life.ready_s is None:
            life.ready_s = now_s
            self._told()

    def _gone(self, name: str, now_s: float) -> None:
        life = self.lives.get(name)
        if life is None or life.gone_s is not None:
            return
        life.gone_s = now_s
        life.going.set()
        if not life.address:
            life.ended_s = now_s
        self._told()

    async def _live(self, life: Life) -> None:
        """From the pod's address to the end of its last request."""
        clock = self._clock
        await self._freed(life)
        life.server = server = self._made(life.address, self._port, self._left_of(life))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(server.run(), name=f"server of {life.name}")
            while not server.up and life.gone_s is None:
                await clock.sleep_until(clock.monotonic() + LOOK_S, life.going)
            if life.gone_s is None:
                await self._lift(life.name)
            await life.going.wait()
            await clock.sleep_until(clock.monotonic() + server.stale_s)
            end_s = clock.monotonic() + DRAIN_S
            while (server.running or server.waiting) and clock.monotonic() < end_s:
                await clock.sleep_until(clock.monotonic() + LOOK_S)
            life.busy_s, life.server, life.ended_s = server.busy_s, None, clock.monotonic()
            running.cancel()

    def _left_of(self, life: Life) -> Stages:
        """The stages of the pod's start; a warm slot is taken where one is left."""
        if not self.stages or not self.slots_left:
            return self.stages
        self.slots_left -= 1
        life.warm = True
        return self.stages[-1:]

    async def _freed(self, life: Life) -> None:
        """Return once no earlier pod's server has the address, which a fake kubelet gives away again at once."""
        while any(o is not life and o.address == life.address and o.ended_s is None for o in self.lives.values()):
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)

    def _servers(self) -> list[Server | Foreign]:
        return [life.server for life in self.lives.values() if life.server is not None]
