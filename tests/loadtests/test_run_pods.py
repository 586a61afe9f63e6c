"""Servers behind pods: started at the pod's address, ready after their warm-up, and drained when the pod goes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp
import numpy as np

from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.meta import Condition, Meta
from autoscaler.adapters.kube.pods import Pod, PodStatus
from autoscaler.runtime.clock import WallClock
from loadtests.engines.profile import Curve, Speed
from loadtests.engines.server import Stages
from loadtests.run.pods import MODEL, Pods, ours
from loadtests.traffic.sender import Ask
from loadtests.traffic.stream import Asking, Endpoint
from loadtests.traffic.tally import Reply
from loadtests.traffic.target import Target
from tests.loadtests.servers import PORT, fresh_address, until

WARM_UP_S = 0.3
SPEED = Speed("quick", Curve(((1, 0.002),)), Curve(((1, 0.01),)), 8, 16_000)
"""A token each 10 ms."""


@dataclass
class Scene:
    """Pods as an API server tells of them."""

    pods: Pods
    addresses: dict[str, str] = field(default_factory=dict)

    def tell(self, name: str, *, ready: bool = False, going: bool = False) -> None:
        address = self.addresses.setdefault(name, fresh_address())
        conditions = (Condition(type="Ready", status="True" if ready else "False"),)
        gone = datetime(2026, 1, 1, tzinfo=UTC) if going else None
        pod = Pod(Meta(name=name, deletion_timestamp=gone), status=PodStatus(pod_ip=address, conditions=conditions))
        self.pods.heard(Change(f"load/{name}", None, pod))

    def base(self, name: str) -> str:
        return f"http://{self.addresses[name]}:{PORT}"


@asynccontextmanager
async def scene(*, warm_slots: int = 0, stages: Stages = (("graphs", WARM_UP_S),)) -> AsyncIterator[Scene]:
    """Pods whose readiness is told as soon as their server asks for it."""

    def nothing() -> None:
        pass

    async def lift(name: str) -> None:
        made.tell(name, ready=True)

    made_by = ours(SPEED, WallClock(), "vllm")
    pods = Pods(made_by, WallClock(), port=PORT, stages=stages, lift=lift, told=nothing, warm_slots=warm_slots)
    made = Scene(pods)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pods.run())
        await asyncio.sleep(0)
        yield made
        running.cancel()


@asynccontextmanager
async def endpoint(*bases: str) -> AsyncIterator[Endpoint]:
    async with aiohttp.ClientSession() as session:
        asking = Asking(Target("http://127.0.0.1:1"), MODEL, bases=bases)
        yield Endpoint(asking, session, np.random.default_rng(0))


async def asked(target: Endpoint, tokens: int) -> Reply:
    reply = Reply()
    await target.send(Ask(0, 4, tokens, 0), reply)
    return reply


async def test_a_pod_serves_after_its_warm_up_and_those_of_the_first_instant_at_once() -> None:
    async with scene() as made:
        made.tell("first")
        await until(lambda: made.pods.bases == (made.base("first"),))
        made.pods.stages = made.pods.later
        made.tell("later")
        await until(lambda: len(made.pods.bases) == 2)
        first, later = (made.pods.lives[name] for name in ("first", "later"))
        assert first.server is not None
        assert first.server.stages == ()
        assert later.ready_s is not None
        assert later.ready_s - later.begun_s >= WARM_UP_S


async def test_the_first_that_begin_later_find_the_warm_slots_and_are_left_the_last_stage() -> None:
    async with scene(warm_slots=1, stages=(("weights", 60.0), ("graphs", WARM_UP_S))) as made:
        made.tell("first")
        await until(lambda: made.pods.bases == (made.base("first"),))
        made.pods.stages = made.pods.later
        made.tell("warm")
        await until(lambda: len(made.pods.bases) == 2)
        made.tell("cold")
        first, warm, cold = (made.pods.lives[name] for name in ("first", "warm", "cold"))
        await until(lambda: cold.server is not None)
        assert cold.server is not None
        assert (first.warm, warm.warm, cold.warm) == (False, True, False)
        assert cold.server.stages == (("weights", 60.0), ("graphs", WARM_UP_S))
        assert warm.ready_s is not None
        assert WARM_UP_S <= warm.ready_s - warm.begun_s < 60.0


async def test_a_pod_that_goes_gets_nothing_more_and_finishes_what_it_has() -> None:
    async with scene() as made:
        made.tell("one")
        await until(lambda: made.pods.bases)
        async with endpoint(*made.pods.bases) as target, asyncio.TaskGroup() as group:
            answering = group.create_task(asked(target, 40))
            await until(lambda: made.pods.running == 1)
            made.tell("one", going=True)
            assert made.pods.bases == ()
            reply = await answering
        assert (reply.failure, reply.events) == (None, 40)
        life = made.pods.lives["one"]
        await until(lambda: life.ended_s)
        assert life.busy_s >= 0.39, "the time of its steps is kept"
        assert made.pods.busy_s == life.busy_s


async def test_a_pod_that_goes_while_it_warms_up_never_serves() -> None:
    async with scene() as made:
        made.pods.stages = made.pods.later
        made.tell("one")
        made.tell("one", going=True)
        await until(lambda: made.pods.lives["one"].ended_s)
        assert made.pods.lives["one"].ready_s is None


async def test_requests_go_to_the_replica_with_the_fewest_and_wait_while_there_is_none() -> None:
    async with scene() as made:
        made.tell("a")
        made.tell("b")
        await until(lambda: len(made.pods.bases) == 2)
        async with endpoint(*made.pods.bases) as target, asyncio.TaskGroup() as group:
            six = [group.create_task(asked(target, 100)) for _ in range(6)]
            await until(lambda: made.pods.running == 6)
            servers = [life.server for life in made.pods.lives.values()]
            assert [server.running for server in servers if server] == [3, 3]
            target.aim(())
            waiting = group.create_task(asked(target, 1))
            await asyncio.wait(six)
            assert not waiting.done(), "nobody may be asked"
            target.aim((made.base("a"),))
            assert (await waiting).failure is None
