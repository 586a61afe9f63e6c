"""From a claim to what is stepped, on a followed cluster of plain values."""

import asyncio
from dataclasses import replace as evolve

import pytest
from msgspec.structs import replace

from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.limits import Quota, QuotaStatus
from autoscaler.adapters.kube.meta import Meta
from autoscaler.api.claims import Block, Claim, Doubt, Obstacle, Way
from autoscaler.api.modes import Mode, Tier
from autoscaler.app.pool_leads import NextStart
from autoscaler.runtime.clock import ScaledClock
from tests.app.scene import KEY, REF, Scene, claim, pod

pytestmark = pytest.mark.looptime(noop_cycles=1)


async def test_a_claim_becomes_a_target_with_its_policy_tier_gpus_and_mode() -> None:
    scene = Scene()
    scene.claimed(claim(max_replicas="7", tier="critical"))
    found = scene.target
    assert (found.params.max_replicas, found.tier, found.gpus_per_replica, found.mode) == (
        7,
        Tier.CRITICAL,
        2,
        Mode.ACTIVE,
    )


async def test_a_claim_that_meets_a_bug_is_driven_no_more_and_takes_nobody_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene()
    scene.claimed(claim())
    with monkeypatch.context() as patch:
        patch.setattr("autoscaler.app.room.gpus", lambda *_: 1 // 0)
        scene.claimed(claim(mode="Paused"))
        scene.claimed(claim(mode="Paused"))
    assert scene.driver.targets == {}, "as it was before its edit it would still be acted upon"
    assert capsys.readouterr().out.count("ZeroDivisionError") == 1
    scene.claimed(claim(mode="Paused"))
    assert scene.target.mode is Mode.PAUSED


async def test_of_a_namespace_whose_last_workload_went_nothing_is_kept() -> None:
    """A namespace for each run of a test, one a minute, would be 44,000 in a month."""
    scene = Scene()
    scene.claimed(claim())
    scene.claimed(None)
    assert scene.workloads._within == {}


async def test_a_policys_own_gpu_count_is_believed_over_the_template() -> None:
    scene = Scene()
    scene.claimed(claim(gpus_per_replica="8"))
    assert scene.target.gpus_per_replica == 8


async def test_a_group_without_a_template_is_as_large_as_its_leader_says() -> None:
    scene = Scene()
    scene.cluster.template = None
    leader = pod("a")
    labels = {"leaderworkerset.sigs.k8s.io/name": "chat"}
    size = {"leaderworkerset.sigs.k8s.io/size": "4"}
    leader = replace(leader, metadata=replace(leader.metadata, labels=labels, annotations=size))
    scene.cluster.members.note(Change("prod/a", None, leader))
    ref = evolve(REF, group="leaderworkerset.x-k8s.io", kind="LeaderWorkerSet")
    scene.claimed(evolve(claim(), ref=ref))
    assert scene.target.gpus_per_replica == 8, "four pods of two"


async def test_an_obstacle_leaves_nothing_but_watching() -> None:
    scene = Scene()
    scene.claimed(claim(Obstacle(Block.HPA, "an HPA sets it too"), mode="Active"))
    assert scene.target.mode is Mode.SHADOW


async def test_what_keda_asks_for_is_driven_in_its_mode_and_never_patched() -> None:
    scene = Scene()
    scene.claimed(claim(mode="Active"))
    assert not scene.target.told
    scene.claimed(evolve(claim(mode="Active"), way=Way.SCALED_OBJECT, scaled_object="chat"))
    assert (scene.target.told, scene.target.mode) == (True, Mode.ACTIVE)


KEPT, STILL = Doubt(False, "HPAs not heard", "mend it"), Doubt(True, "policies not heard", "mend it")
LEFT = {
    "a rival may have come: nothing is taken away": ("Active", KEPT, Mode.PAUSED_SCALE_IN),
    "and nothing at all where nothing may be added": ("PausedScaleOut", KEPT, Mode.PAUSED),
    "the mode may be another: nothing is done": ("Active", STILL, Mode.PAUSED),
    "a pause stays": ("Paused", KEPT, Mode.PAUSED),
    "who never acts does not": ("Shadow", STILL, Mode.SHADOW),
}


@pytest.mark.parametrize(("given", "doubt", "left"), LEFT.values(), ids=LEFT.keys())
async def test_a_mode_is_believed_as_far_as_what_it_was_read_from_is_heard(
    given: str, doubt: Doubt, left: Mode
) -> None:
    scene, seen, chosen = Scene(), list[Mode](), list[Mode]()
    asked = claim(mode=given)
    scene.claimed(asked)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        for found in (doubt, None):
            scene.cluster.doubted = found
            await asyncio.sleep(1.1)
            seen.append(scene.target.mode)
            chosen.append(scene.workloads.chosen(asked))
        running.cancel()
    assert seen == [left, Mode(given)]
    assert chosen == [Mode(given)] * 2, "a doubt is nobody's choice"


async def test_a_mode_is_acted_upon_again_as_soon_as_it_is_read_though_rivals_are_not_yet() -> None:
    """After an outage one list comes back before the other, and a burst waits."""
    scene, seen = Scene(), list[Mode]()
    scene.claimed(claim())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        for found in (STILL, KEPT, None):
            scene.cluster.doubted = found
            await asyncio.sleep(1.1)
            seen.append(scene.target.mode)
        running.cancel()
    assert seen == [Mode.PAUSED, Mode.PAUSED_SCALE_IN, Mode.ACTIVE]


async def test_a_claim_that_is_met_in_doubt_is_left_alone_until_there_is_none() -> None:
    """Who else scales its target was never looked for; one that was claimed before is only not shrunk."""
    scene, seen = Scene(), list[Mode]()
    scene.cluster.doubted = KEPT
    scene.claimed(claim())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        for found in (KEPT, None, KEPT):
            scene.cluster.doubted = found
            await asyncio.sleep(1.1)
            scene.claimed(claim(max_replicas=str(len(seen) + 5)))
            seen.append(scene.target.mode)
        running.cancel()
    assert seen == [Mode.PAUSED, Mode.ACTIVE, Mode.PAUSED_SCALE_IN]


async def test_a_doubt_that_lasts_is_never_away_for_whoever_asks_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """KEDA is answered in a thread of its own: between two doubts it would be told what is decided."""
    scene, seen = Scene(), list[Mode]()
    scene.cluster.doubted = STILL
    scene.claimed(claim())
    asked = scene.cluster.doubt

    def looking(of: Claim) -> Doubt | None:
        seen.append(scene.workloads.mode(of))
        return asked(of)

    monkeypatch.setattr(scene.cluster, "doubt", looking)
    scene.claimed(claim(max_replicas="7"))
    assert seen == [Mode.PAUSED]


async def test_the_default_mode_holds_where_the_policy_gives_none() -> None:
    scene = Scene(Mode.SHADOW)
    scene.claimed(claim())
    assert scene.target.mode is Mode.SHADOW


async def test_a_mode_ends_at_its_time_without_any_event() -> None:
    scene = Scene()
    scene.claimed(claim(mode="Paused", mode_until="1970-01-01T00:00:30Z", mode_after="Active"))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        clock = ScaledClock(1.0)
        seen = []
        for at_s in (29.0, 31.5):
            await clock.sleep_until(at_s)
            seen.append(scene.target.mode)
        running.cancel()
    assert seen == [Mode.PAUSED, Mode.ACTIVE]


async def test_a_quota_becomes_a_limit_and_goes_with_it() -> None:
    scene, seen = Scene(), []
    scene.cluster.add(pod("a"))
    scene.claimed(claim())
    hard, used = {"requests.nvidia.com/gpu": "8"}, {"requests.nvidia.com/gpu": "2"}
    quota = Quota(Meta("q", "prod"), status=QuotaStatus(dict(hard), dict(used)))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        for quotas in ([], [quota], []):
            scene.cluster.quotas = quotas
            scene.workloads.on_limits("prod")
            await asyncio.sleep(1.5)
            seen.append(scene.target.limits.quota_replicas)
        running.cancel()
    assert seen == [None, 4, None]


async def test_eighty_changes_of_a_quota_within_a_second_are_passed_on_twice() -> None:
    """The first at once, the rest together: each would be a step of every workload of the namespace."""
    scene, seen = Scene(), list[int | None]()
    scene.cluster.add(pod("a"))
    scene.claimed(claim())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        for used in range(80):
            hard: dict[str, str | int | float] = {"requests.nvidia.com/gpu": str(2 * used + 4)}
            status = QuotaStatus(hard, {"requests.nvidia.com/gpu": "2"})
            scene.cluster.quotas = [Quota(Meta("q", "prod"), status=status)]
            scene.workloads.on_limits("prod")
            scene.workloads.on_pods(KEY)
            await asyncio.sleep(0.01)
            if scene.target.limits.quota_replicas not in seen:
                seen.append(scene.target.limits.quota_replicas)
        await asyncio.sleep(1.0)
        seen.append(scene.target.limits.quota_replicas)
        running.cancel()
    assert seen == [2, 81]


async def test_a_quota_whose_count_is_ahead_of_the_pods_orders_no_replica_away() -> None:
    scene = Scene()
    scene.cluster.add(pod("a"))
    hard = {"requests.nvidia.com/gpu": "4"}
    scene.cluster.quotas = [Quota(Meta("q", "prod"), status=QuotaStatus(dict(hard), dict(hard)))]
    scene.claimed(claim())
    assert scene.target.limits.quota_replicas == 2, "both that are asked for, though one pod has not been seen yet"


async def test_a_target_made_anew_begins_afresh() -> None:
    scene = Scene()
    scene.claimed(claim())
    scene.claimed(evolve(claim(), ref=evolve(REF, uid="t2")))
    assert scene.driver.removed == [KEY]
    assert KEY in scene.driver.targets


async def test_what_was_measured_of_starts_stands_in_the_place_of_the_policys_guess() -> None:
    scene = Scene()
    scene.cluster.add(pod("a"), pod("b"))
    scene.claimed(claim(warmup_prior_s="180"))
    assert scene.target.in_force.warmup_prior_s == 180.0
    scene.lead = NextStart(425.0, few=False)
    scene.workloads.on_lead(KEY)
    assert (scene.target.prior_s, scene.target.params.warmup_prior_s) == (425.0, 180.0)
    assert scene.target.in_force.warmup_prior_s == 425.0
    scene.lead = None
    scene.claimed(claim(warmup_prior_s="180"))
    assert scene.target.in_force.warmup_prior_s == 180.0, "unknown again"
    scene.workloads.on_lead("prod/other")
    assert list(scene.driver.targets) == [KEY], "of a workload that is driven no more nothing is told"


async def test_replicas_that_start_are_reckoned_with_what_the_policy_says_until_all_are_ready() -> None:
    scene = Scene()
    scene.lead = NextStart(15.0, few=False)
    scene.cluster.add(pod("a"))
    scene.claimed(claim(warmup_prior_s="240"))
    assert scene.target.in_force.warmup_prior_s == 240.0, "two are asked for, and one has no pod yet"
    scene.cluster.add(pod("b", ready=False))
    scene.workloads.on_lead(KEY)
    assert scene.target.in_force.warmup_prior_s == 240.0
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        scene.cluster.members.note(Change("prod/b", pod("b", ready=False), pod("b")))
        scene.workloads.on_pods(KEY)
        await asyncio.sleep(0.1)
        running.cancel()
    assert scene.target.prior_s == 15.0
