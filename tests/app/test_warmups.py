"""The stages of a cold start, measured from what a followed cluster tells of pods."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.meta import Condition, Meta, Owner
from autoscaler.adapters.kube.pods import (
    Container,
    ContainerState,
    ContainerStatus,
    Node,
    Pod,
    PodSpec,
    PodStatus,
    Resources,
    Running,
)
from autoscaler.adapters.kube.pulls import Involved, Pull, PulledEvent, pull_of
from autoscaler.app.warmups import KEY, LAST_KEY, MOST_PULLS, WarmUps
from autoscaler.core.pool.ahead import Started
from autoscaler.core.types import PodReading
from autoscaler.ports import Fault, MetricSample, PortError
from autoscaler.runtime.clock import ScaledClock
from tests.runtime.fakes import Store

pytestmark = pytest.mark.looptime(noop_cycles=1)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
OWNER = Owner("apps/v1", "ReplicaSet", "chat-7d9", "rs", controller=True)
ENGINE = Container("engine", resources=Resources({"nvidia.com/gpu": "8"}))


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def pod(
    name: str, *, scheduled_s: float | None = None, started_s: float | None = None, ready_s: float | None = None
) -> Pod:
    meta = Meta(
        name, "prod", f"uid-{name}", creation_timestamp=NOON, labels={"pod-template-hash": "7d9"},
        owner_references=(OWNER,),
    )  # fmt: skip
    conditions = []
    if scheduled_s is not None:
        conditions.append(Condition("PodScheduled", "True", last_transition_time=at(scheduled_s)))
    if ready_s is not None:
        conditions.append(Condition("Ready", "True", last_transition_time=at(ready_s)))
    running = None if started_s is None else Running(at(started_s))
    status = ContainerStatus("engine", image_id="reg/vllm@sha256:abc", state=ContainerState(running=running))
    spec = PodSpec("gpu-1" if scheduled_s is not None else "", (ENGINE,))
    return Pod(meta, spec, PodStatus("Running", "127.0.0.5", tuple(conditions), (status,)))


class Followed:
    def __init__(self, made: datetime) -> None:
        self.made = made
        self.listed = True

    def node(self, name: str) -> Node | None:
        labels = {"nvidia.com/gpu.product": "H100"}
        return Node(Meta(name, creation_timestamp=self.made, labels=labels)) if name and self.listed else None


def sampled(workload: str) -> MetricSample:
    raise PortError(Fault.UNAVAILABLE, f"{workload}: no page yet")


def measuring(store: Store | None = None, made: datetime = NOON - timedelta(days=3), **given: Any) -> WarmUps:
    outside: dict[str, Any] = {
        "cluster": Followed(made), "clock": ScaledClock(1.0), "store": store or Store(), "sample": sampled,
        "gpu_resources": ("nvidia.com/gpu",), "claimed": lambda workload: workload == "prod/chat",
        "model": lambda _: "chat", "leading": lambda: True,
    }  # fmt: skip
    return WarmUps(**outside | given)


def live(warmups: WarmUps, name: str, ready_s: float = 112.0) -> Pod:
    """A pod that goes through its stages: 2 s to a node, 40 s to its image, 10 s to its process, the rest to ready."""
    seen = [
        pod(name),
        pod(name, scheduled_s=2),
        pod(name, scheduled_s=2, started_s=52),
        pod(name, scheduled_s=2, started_s=52, ready_s=ready_s),
    ]
    before = None
    for index, now in enumerate(seen):
        if index == 2:
            warmups.on_pull(Pull(f"uid-{name}", at(42).timestamp(), was_present=False))
        warmups.on_pod(Change(f"prod/{name}", before, now))
        before = now
    return seen[-1]


async def test_each_stage_is_told_of_starts_like_those_of_the_workload() -> None:
    warmups = measuring()
    pods = {f"prod/p{n}": live(warmups, f"p{n}", 112.0 + n) for n in range(10)}
    (told,) = warmups.measured(pods)
    assert "8xH100" in told
    assert "10 starts" in told
    assert "scheduled 2 s, pulled 40 s, started 10 s, ready 64 s" in told


@pytest.mark.parametrize("unready_first", [False, True], ids=["met ready", "met while it is not ready again"])
async def test_a_pod_that_is_met_hours_after_it_was_made_tells_nothing_of_starts(unready_first: bool) -> None:
    """Its container was started anew after 45 minutes: from its creation to its readiness lie more than those."""
    warmups = measuring(clock=ScaledClock(1.0, NOON.timestamp() + 3600.0))
    before, now = pod("old", scheduled_s=2, started_s=2700), pod("old", scheduled_s=2, started_s=2700, ready_s=2760)
    if unready_first:
        warmups.on_pod(Change("prod/old", None, before))
    warmups.on_pod(Change("prod/old", before if unready_first else None, now))
    assert warmups.measured({"prod/old": now}) == warmups.stuck({"prod/old": now}) == ()
    assert warmups.started("prod/chat") == Started((), ())


async def test_a_node_that_was_made_for_the_pod_is_another_kind_of_start() -> None:
    old, new = measuring(), measuring(made=NOON + timedelta(seconds=30))
    words = [warmups.measured({"prod/a": live(warmups, "a")})[0] for warmups in (old, new)]
    assert ["on a new node" in said for said in words] == [False, True]


async def test_the_first_token_is_when_a_page_first_shows_one() -> None:
    tokens = 0.0

    def sample(workload: str) -> MetricSample:
        reading = PodReading("a", at(112).timestamp(), generation_tokens_total=tokens)
        return MetricSample(at(112 + clock.now()).timestamp(), (reading,))

    clock = ScaledClock(1.0)
    warmups = measuring(sample=sample, clock=clock)
    last = live(warmups, "a")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(warmups.run())
        await clock.sleep_until(5.0)
        tokens = 3.0
        await clock.sleep_until(8.0)
        running.cancel()
    (told,) = warmups.measured({"prod/a": last})
    assert "serving 6 s" in told or "serving 5 s" in told


async def test_pods_that_wait_for_their_first_token_cost_one_sample_of_their_workload_a_second() -> None:
    """Idle services wait for days: a sample for each of 500 such pods, of 500 pods each, would stop everything else."""
    asked: list[float] = []

    def sample(workload: str) -> MetricSample:
        asked.append(clock.now())
        return MetricSample(at(112).timestamp(), tuple(PodReading(f"p{n}", at(112).timestamp()) for n in range(500)))

    clock = ScaledClock(1.0)
    warmups = measuring(sample=sample, clock=clock)
    for n in range(500):
        live(warmups, f"p{n}")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(warmups.run())
        await clock.sleep_until(5.5)
        running.cancel()
    assert asked == [1.0, 2.0, 3.0, 4.0, 5.0]


async def test_what_was_measured_outlives_the_process() -> None:
    store, clock = Store(), ScaledClock(1.0)
    first = measuring(store, clock=clock)
    last = live(first, "a")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(first.run())
        await clock.sleep_until(61.0)
        running.cancel()
    assert set(store.kept) == {KEY, LAST_KEY}
    second = measuring(store, clock=clock)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(second.run())
        await clock.sleep_until(62.0)
        running.cancel()
    assert second.measured({"prod/a": last}) == first.measured({"prod/a": last})


async def test_a_pod_that_waits_for_a_node_for_half_an_hour_is_told() -> None:
    warmups = measuring(clock=_at(NOON.timestamp() + 1800.0))
    warmups.on_pod(Change("prod/a", None, pod("a")))
    (told,) = warmups.stuck({"prod/a": pod("a")})
    assert told == "prod/a is not scheduled for 30 min, much longer than such starts take"
    assert warmups.stuck({"prod/b": pod("b")}) == ()


async def test_pods_of_nobody_are_not_measured() -> None:
    warmups = measuring(claimed=lambda _: False)
    assert warmups.measured({"prod/a": live(warmups, "a")}) == ()


@pytest.mark.parametrize(
    ("event", "pull"),
    [
        pytest.param(
            PulledEvent(Meta(), Involved("u"), 'Successfully pulled image "x" in 41s', None, at(3)),
            Pull("u", at(3).timestamp(), was_present=False),
            id="pulled",
        ),
        pytest.param(
            PulledEvent(Meta(), Involved("u"), 'Container image "x" already present on machine', at(1)),
            Pull("u", at(1).timestamp(), was_present=True),
            id="was there",
        ),
        pytest.param(PulledEvent(Meta(), Involved("u")), None, id="without a time"),
        pytest.param(PulledEvent(Meta(), Involved(), "", at(1)), None, id="about nobody"),
    ],
)
def test_the_kubelets_word_about_an_image(event: PulledEvent, pull: Pull | None) -> None:
    assert pull_of(event) == pull


def _at(now_s: float) -> Any:
    class Fixed(ScaledClock):
        def now(self) -> float:
            return now_s

    return Fixed(1.0)


async def test_starts_of_a_model_are_kept_apart_by_the_state_of_the_node() -> None:
    warmups = measuring()
    assert warmups.started("prod/chat") is None, "no pod of it was ready yet"
    for n in range(3):
        live(warmups, f"p{n}", 112.0 + n)
    assert warmups.started("prod/chat") == Started((), ()), "pulled on an old node: neither warm nor new"
    for n in range(3, 5):
        name = f"p{n}"
        warmups.on_pull(Pull(f"uid-{name}", at(4).timestamp(), was_present=True))
        warmups.on_pod(Change(f"prod/{name}", None, pod(name)))
        warmups.on_pod(Change(f"prod/{name}", None, pod(name, scheduled_s=2, started_s=5, ready_s=60 + n)))
    assert warmups.started("prod/chat") == Started((63.0, 64.0), ())


@pytest.mark.parametrize(("placed_s", "new"), [(2.0, False), (20.0, True)], ids=["warmed by a slot", "made for it"])
async def test_a_young_node_was_made_for_a_pod_that_waited_for_it(placed_s: float, new: bool) -> None:
    """A warm slot gives its place up within a second or two; a node that comes takes longer."""
    warmups = measuring(made=NOON - timedelta(seconds=30))
    one = pod("a", scheduled_s=placed_s, started_s=30, ready_s=60)
    warmups.on_pod(Change("prod/a", None, pod("a")))
    warmups.on_pod(Change("prod/a", pod("a"), one))
    (told,) = warmups.measured({"prod/a": one})
    assert ("on a new node" in told) == new


async def test_two_models_that_share_an_image_do_not_share_their_starts() -> None:
    names = {"name": "chat"}
    warmups = measuring(model=lambda _: names["name"])
    live(warmups, "a")
    names["name"] = "code"
    (told,) = warmups.measured({"prod/b": live(warmups, "b")})
    assert ", 1 starts" in told


async def restarted(store: Store, clock: ScaledClock, **given: Any) -> WarmUps:
    """A controller that begins with what another one kept."""
    warmups = measuring(store, clock=clock, **given)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(warmups.run())
        await clock.sleep_until(clock.now() + 0.5)
        running.cancel()
    return warmups


def warm_start(warmups: WarmUps, name: str, ready_s: float) -> Pod:
    """A pod on a node that was there with its image."""
    warmups.on_pull(Pull(f"uid-{name}", at(4).timestamp(), was_present=True))
    last = pod(name, scheduled_s=2, started_s=5, ready_s=ready_s)
    warmups.on_pod(Change(f"prod/{name}", None, pod(name)))
    warmups.on_pod(Change(f"prod/{name}", None, last))
    return last


async def test_a_workload_at_zero_has_its_starts_after_a_restart_too() -> None:
    store, clock = Store(), ScaledClock(1.0)
    first = measuring(store, clock=clock)
    last = warm_start(first, "a", 61.0)
    first.on_pod(Change("prod/a", last, None))
    assert first.started("prod/chat") == Started((61.0,), ())
    await first.keep()
    assert (await restarted(store, clock)).started("prod/chat") == Started((61.0,), ())


async def test_pods_that_are_read_before_their_nodes_leave_it_at_that() -> None:
    """Lists arrive in any order: until its node is there, a pod's GPUs are of no product, and no start is like its."""
    store, clock = Store(), ScaledClock(1.0)
    first = measuring(store, clock=clock)
    last = warm_start(first, "a", 61.0)
    await first.keep()
    nodes = Followed(NOON)
    second = await restarted(store, clock, cluster=nodes)
    nodes.listed = False
    second.on_pod(Change("prod/a", None, last))
    assert second.started("prod/chat") == Started((61.0,), ())


@pytest.mark.parametrize(
    "last_starts",
    [{"version": 0}, {"version": 1, "kinds": [["m", "s"]], "workloads": {"prod/chat": [10**400, 0]}}],
    ids=["of another build", "no float holds it"],
)
async def test_a_checkpoint_that_cannot_be_used_costs_what_it_held_and_no_more(last_starts: dict[str, Any]) -> None:
    store, clock = Store(), ScaledClock(1.0)
    first = measuring(store, clock=clock)
    last = warm_start(first, "a", 61.0)
    await first.keep()
    store.kept = {**store.kept, LAST_KEY: last_starts}
    second = await restarted(store, clock)
    assert second.started("prod/chat") is None
    second.on_pod(Change("prod/a", None, last))
    assert second.started("prod/chat") == Started((61.0,), ()), "the seconds themselves were kept"


async def test_pulls_of_pods_that_are_gone_are_not_kept_for_ever() -> None:
    """Events outlive their pods by an hour: each list told of thousands in a busy cluster, and none was forgotten."""
    warmups = measuring()
    for n in range(MOST_PULLS + 10):
        warmups.on_pull(Pull(f"uid-gone-{n}", at(0).timestamp(), was_present=True))
    assert len(warmups._pulls) == MOST_PULLS
    pods = {f"prod/p{n}": live(warmups, f"p{n}", 112.0 + n) for n in range(10)}
    (told,) = warmups.measured(pods)
    assert "pulled 40 s" in told, "the newest are known"
