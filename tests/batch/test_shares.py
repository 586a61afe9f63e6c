"""Shares of a GPU beside whole ones: a share lies on one device, whole units on devices without one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.gangs import Elastic, Form, Gang, PodSet, Topology
from autoscaler.core.batch.loans import LoanBound
from autoscaler.core.batch.outlook import outlook
from autoscaler.core.batch.owners import PodSeen
from autoscaler.core.batch.params import BatchParams, QueueSpec, Shape
from autoscaler.core.batch.placement import Placer
from autoscaler.core.batch.reasons import BatchReason, Change
from autoscaler.core.batch.scores import PodKind, kind_of
from tests.batch.builders import H100, LEVELS, node, queue, racks
from tests.batch.builders import params as whole_params
from tests.batch.story import Story
from tests.batch.test_laws import keeps_the_peace

law = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEEDS = st.integers(0, 10_000)


def params(*queues: QueueSpec, **more: Any) -> BatchParams:
    return whole_params(*queues, shapes=(Shape(H100, shared=True),), **more)


def sets(*asked: tuple[int, int], models: tuple[str, ...] = (), cpu: float = 0.0) -> Form:
    """Pods of an amount each, as (pods, thousandths of a GPU): below a thousand a share."""
    return Form(
        tuple(
            PodSet(pods, amount // 1000, H100, cpu, 0.0, amount % 1000, frozenset(models)) for pods, amount in asked
        )
    )  # fmt: skip


def gang(name: str, *asked: tuple[int, int], team: str = "a", at_s: float = 0.0, **more: Any) -> Gang:
    form = sets(*asked, models=more.pop("models", ()), cpu=more.pop("cpu", 0.0))
    required = more.pop("required", None)
    return Gang(name, team, replace(form, topology=Topology(required)), at_s, **more)


def story_of(units: int = 2, count: int = 1, *queues: QueueSpec, **more: Any) -> Story:
    nodes = [node(f"n{at}", units, f"r{at // 2}", **more) for at in range(count)]
    return Story(params(*queues), nodes)


def devices(story: Story, name: str = "n0") -> list[int]:
    """Thousandths that shares hold of a node's devices, those without any left out."""
    estate = story.room.ledger.estate
    assert estate.devices is not None
    held = estate.devices.held[estate.index[name, H100]]
    return [each for each in held.tolist() if each]


def test_a_share_fills_a_begun_device_and_whole_units_never_take_one() -> None:
    story = story_of(2)
    story.submit(gang("s3", (1, 300)), gang("s7", (1, 700)))
    story.settle()
    assert devices(story) == [1000]
    story.submit(gang("both", (1, 2000)), gang("one", (1, 1000)))
    story.settle()
    assert story.order() == ["s3", "s7", "one"], "two GPUs are not there any more: one carries shares"
    assert story.room.ledger.owners("n0", H100) == {"batch": 1, "shared": 1, "free": 0}


def test_two_shares_above_a_half_take_two_devices_and_what_is_left_of_both_is_not_one_place() -> None:
    story = story_of(2)
    story.submit(gang("s6", (2, 600)), gang("s7", (1, 700)))
    story.settle()
    assert devices(story) == [600, 600]
    assert story.order() == ["s6"]
    assert story.why("s7").changes == (Change(BatchReason.FRAGMENTED, H100, 1),)


def test_a_gang_of_shares_and_whole_units_starts_whole_or_holds_nothing() -> None:
    story = story_of(2)
    story.submit(gang("too many", (1, 1000), (3, 400)))
    story.settle()
    assert story.order() == []
    assert devices(story) == []
    assert story.room.ledger.owners("n0", H100) == {"free": 2}
    story.submit(gang("fits", (1, 1000), (2, 400)))
    story.settle()
    assert story.order() == ["fits"]
    told = {spot.device for spot in story.admitted[0][1].spots if spot.pod_set == 1}
    assert told == {0}, "both shares on the device that the first began"


def test_a_device_is_whole_again_once_the_last_share_has_ended() -> None:
    story = story_of(1)
    story.submit(gang("short", (1, 300), expected_s=50.0), gang("long", (1, 300), expected_s=100.0))
    story.settle()
    story.submit(gang("whole", (1, 1000), at_s=1.0, expected_s=10.0))
    story.run(60.0)
    assert (story.order(), devices(story)) == (["short", "long"], [300])
    story.run(1000.0)
    assert [(at_s, each.gang) for at_s, each in story.admitted][-1] == (100.0, "whole")
    assert story.room.ledger.owners("n0", H100) == {"free": 1}


def test_quotas_count_thousandths_and_say_by_how_many_a_share_is_beyond() -> None:
    story = story_of(4, 1, queue("a", quota={"limit": 1}))
    story.submit(*(gang(f"s{at}", (1, 400), at_s=float(at)) for at in range(3)))
    story.settle()
    assert story.order() == ["s0", "s1"]
    assert story.why("s2").changes == (Change(BatchReason.LIMIT, "a", 200),)
    assert story.holds("a") == 800
    assert story.room.tree.amounts[1][0] == 800_000, "millionths of a reference GPU"


def test_a_pod_goes_to_the_models_that_it_names() -> None:
    nodes = [node("t4", 2, model="T4"), node("a10", 2, model="A10")]
    story = Story(params(), nodes)
    story.submit(gang("any", (1, 2000)), gang("t4", (1, 500), models=("T4", "P100")))
    story.submit(gang("none", (1, 500), models=("V100",)))
    story.settle()
    where = {each.gang: each.spots[0].node for _, each in story.admitted}
    assert where == {"any": "a10", "t4": "t4"}, "what only one asks for is left to it"
    assert story.why("none").reason is BatchReason.TOO_LARGE


def test_a_share_goes_where_a_whole_gpu_is_of_no_use_for_want_of_cores() -> None:
    story = Story(params(), [node("many", 1, cpu=64.0), node("few", 1, cpu=8.0)])
    estate = story.room.ledger.estate
    kinds = {0: {PodKind(1, 0, frozenset(), 12.0, 0.0): 1.0, PodKind(0, 500, frozenset(), 1.0, 0.0): 1.0}}
    # On `many` half of the GPU would become useless to half of what is asked for: 250 thousandths. The GPU of `few`,
    # with 8 cores, is useless to that half already: 500, and with the share on it 250.
    spots = Placer(estate, LEVELS, None, kinds).take(story.room.placer.ask(sets((1, 500), cpu=1.0)))
    assert spots is not None
    assert estate.nodes[spots[0].node].name == "few"
    plain = Placer(estate, LEVELS).take(story.room.placer.ask(sets((1, 500), cpu=1.0)))
    assert plain is not None
    assert estate.nodes[plain[0].node].name == "few", "beside the share that is there"


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        (PodSet(1, 1, H100, share=500), "share 500 beside 1 units"),
        (PodSet(1, 0, H100, share=1000), "share 1000"),
        (PodSet(1, 0, H100, share=-1), "share -1"),
        (PodSet(1, 0, H100), "units 0"),
        (PodSet(1, 0, "t4", share=500), "share 500"),
        (PodSet(1, 1, "t4", models=frozenset(["T4"])), "models ['T4']"),
    ],
)
def test_what_no_device_can_give_is_refused_with_the_remedy(asked: PodSet, what: str) -> None:
    story = Story(whole_params(shapes=(Shape(H100, shared=True), Shape("t4"))), racks(1, 1))
    refused = story.submit(Gang("g", "a", Form((asked,)), 0.0))
    assert refused is not None
    assert what in refused.what
    assert refused.remedy


def test_a_shape_of_slices_is_not_shared_as_well() -> None:
    with pytest.raises(ValueError, match=r"shapes\[mig\]\.shared"):
        BatchParams((Shape("mig", parts=7, shared=True),), (queue("a"),))


def test_what_is_left_of_a_device_on_a_cordoned_node_is_nobodys() -> None:
    story = story_of(1)
    story.submit(gang("s3", (1, 300)))
    story.settle()
    story.look([node("n0", 1, cordoned=True)])
    story.submit(gang("s4", (1, 400)))
    story.settle()
    assert (story.order(), devices(story)) == (["s3"], [300])
    story.look([node("n0", 1)])
    story.settle()
    assert (story.order(), devices(story)) == (["s3", "s4"], [700])


def test_a_gang_whose_node_is_gone_leaves_its_other_shares_and_others_stay_where_they_are() -> None:
    story = story_of(1, 2)
    story.submit(gang("both", (2, 600)), gang("s3", (1, 300)), gang("s4", (1, 400)))
    story.settle()
    assert (devices(story, "n0"), devices(story, "n1")) == ([900], [1000])
    story.look([node("n1", 1, "r0")])
    assert sorted(devices(story, "n1")) in ([300], [400])
    assert story.room.contradictions() == []


def test_a_node_that_has_fewer_gpus_than_before_drives_out_the_newest_of_those_that_share_them() -> None:
    """The only node loses two of its four GPUs, each of which carries a share: numbers of devices outlive it."""
    story = story_of(4)
    story.submit(*(gang(f"s{at}", (1, 600)) for at in range(4)))
    story.settle()
    assert devices(story) == [600] * 4
    story.look([node("n0", 2)])
    assert story.victims() == ["s3", "s2"]
    assert (devices(story), story.room.contradictions()) == ([600, 600], [])
    story.look([node("n0", 4)])
    story.settle()
    assert devices(story) == [600] * 4


def test_pods_nobody_told_us_about_take_a_shared_device_and_its_gangs_leave() -> None:
    story = story_of(1)
    story.submit(gang("s3", (1, 300)), gang("s4", (1, 400)))
    story.settle()
    story.look(pods=[PodSeen("n0", H100, 1)])
    assert {each.reason for _, each in story.evicted} == {BatchReason.LOST}
    assert sorted(story.victims()) == ["s3", "s4"]
    assert story.room.ledger.owners("n0", H100) == {"foreign": 1, "free": 0}
    story.look()
    story.settle()
    assert (sorted(story.order()[2:]), devices(story)) == (["s3", "s4"], [700])


def test_shares_that_must_be_on_one_node_are_and_those_that_fit_none_are_told() -> None:
    story = story_of(1, 2)
    story.submit(gang("too many", (2, 600), required="node"), gang("fits", (2, 500), required="node"))
    story.settle()
    assert story.order() == ["fits"]
    assert len({spot.node for spot in story.admitted[0][1].spots}) == 1
    assert story.why("too many").reason is BatchReason.TOO_LARGE


def test_a_gang_of_shares_is_as_wide_as_there_is_room_and_quota() -> None:
    story = story_of(2, 1, queue("a", quota={"limit": 2}))
    each = replace(gang("wide", (1, 300)), elastic=Elastic(0, least=1, most=8, written=4))
    story.submit(each)
    story.settle()
    assert sum(spot.pods for spot in story.admitted[0][1].spots) == 6, "three of 300 on each device"
    assert story.holds("a") == 1800
    assert story.admitted[0][1].narrow == Change(BatchReason.LIMIT, "a", 100), "one more would be 2,100 of 2,000"


def test_who_waits_for_whole_units_is_not_passed_for_ever_by_shares() -> None:
    story = story_of(2)
    story.submit(gang("s0", (1, 500), expected_s=100.0), gang("s1", (1, 600), expected_s=80.0))
    story.settle()
    story.submit(gang("whole", (1, 2000), at_s=1.0, expected_s=10.0))
    story.to(2.0)
    assert story.room.ledger.reservations["whole"].start_s == pytest.approx(100.0)
    for at in range(9):
        story.submit(gang(f"late{at}", (1, 400), at_s=story.now_s, expected_s=100.0))
        story.to(story.now_s + 10.0)
    story.run(110.0)
    starts = {each.gang: at_s for at_s, each in story.admitted}
    assert starts["whole"] == pytest.approx(100.0), "no share began on a device that it waits for"
    assert min(at_s for name, at_s in starts.items() if name.startswith("late")) >= 110.0


def test_where_somebody_waits_for_whole_devices_a_share_joins_no_other_and_may_begin_a_device() -> None:
    story = story_of(2)
    story.submit(gang("s3", (1, 300)))
    story.settle()
    estate, placer = story.room.ledger.estate, story.room.placer
    wanted = placer.ask(sets((1, 400)))
    joined = placer.take(wanted)
    assert joined is not None
    placer.give(joined, wanted)
    estate.bar_shares(0, barred=True)
    alone = placer.take(wanted)
    assert alone is not None
    assert (joined[0].device, alone[0].device) == (0, 1)


def test_a_share_that_waits_is_told_when_a_device_has_room_and_starts_then() -> None:
    story = story_of(1)
    story.submit(gang("s6", (1, 600), expected_s=100.0), gang("s2", (1, 200), expected_s=300.0))
    story.settle()
    story.submit(gang("s5", (1, 500), at_s=1.0))
    told = outlook(story.cycles, "s5", 1.0)
    assert told is not None
    assert told.p50_s == pytest.approx(100.0)
    story.settle()
    assert story.room.ledger.reservations["s5"].start_s == pytest.approx(300.0), "at the latest: a whole device"
    told = outlook(story.cycles, "s5", 1.0)
    assert told is not None
    assert told.p50_s == pytest.approx(100.0), "what is kept for it does not stand in its own way"
    story.run(150.0)
    assert [(at_s, each.gang) for at_s, each in story.admitted][-1] == (100.0, "s5")


def test_a_guarantee_makes_the_shares_of_one_device_leave_and_no_others() -> None:
    story = story_of(2, 1, queue("a", 1), queue("b"))
    story.submit(*(gang(f"b{at}", (1, 500), team="b", at_s=float(at)) for at in range(4)))
    story.settle()
    assert devices(story) == [1000, 1000]
    story.now_s = 100.0
    story.submit(gang("mine", (1, 700), at_s=100.0))
    story.run(200.0)
    assert len(story.victims()) == 2
    assert {each.beneficiary for _, each in story.evicted} == {"mine"}
    assert sorted(devices(story)) == [700, 1000]
    assert (story.holds("a"), story.holds("b")) == (700, 1000)


def test_a_share_borrows_no_loan() -> None:
    story = Story(params(), [node("n0", 2, warm_units=2)])
    story.room.lend({H100: LoanBound(2)})
    share, whole = gang("share", (1, 500)), gang("whole", (1, 1000))
    story.submit(*(replace(each, lendable=True, notice_s=1.0, expected_s=3600.0) for each in (share, whole)))
    story.settle()
    assert story.order() == ["whole"]


class Plant:
    """Physical devices, as a cluster would have them: what is told of each start is put onto them, and must fit."""

    def __init__(self, nodes: list[NodeSeen]) -> None:
        self.held = {each.name: [0] * each.units for each in nodes}
        self.shared = {each.name: [False] * each.units for each in nodes}
        self._meant: dict[tuple[str, int], int] = {}
        self.places: dict[str, list[tuple[str, int, int, int]]] = {}
        """By gang: node, physical device, thousandths, the number that it was told as (-1 for a whole one)."""

    def start(self, gang: Gang, told: Any) -> None:
        places = self.places[gang.name] = []
        pods = [0] * len(gang.form.pod_sets)
        for spot in told.spots:
            asked, held = gang.form.pod_sets[spot.pod_set], self.held[spot.node]
            pods[spot.pod_set] += spot.pods
            if asked.share:
                assert spot.pods == 1
                at = self._meant.get((spot.node, spot.device))
                if at is None:
                    at = self._meant[spot.node, spot.device] = held.index(0)
                    self.shared[spot.node][at] = True
                assert held[at] + asked.share <= 1000, "more than a device has"
                assert self.shared[spot.node][at], "a share on a whole unit's device"
                held[at] += asked.share
                places.append((spot.node, at, asked.share, spot.device))
                continue
            for _ in range(spot.pods * asked.units):
                at = held.index(0)  # ValueError: a whole unit without a device that is wholly free
                held[at] = 1000
                places.append((spot.node, at, 1000, -1))
        assert pods == [each.pods for each in gang.form.pod_sets], "a gang that is not whole"

    def end(self, name: str) -> None:
        for node_name, at, amount, told in self.places.pop(name):
            self.held[node_name][at] -= amount
            if told >= 0 and not self.held[node_name][at]:
                del self._meant[node_name, told]
                self.shared[node_name][at] = False


AMOUNTS = (100, 250, 333, 500, 501, 700, 999, 1000, 1000, 2000, 4000)


def drawn(rng: np.random.Generator, number: int, now_s: float) -> Gang:
    asked = tuple(
        (int(rng.integers(1, 4)), int(rng.choice(AMOUNTS))) for _ in range(int(rng.integers(1, 3)))
    )  # fmt: skip
    return gang(
        f"g{number}", *asked, team=f"q{rng.integers(3)}", at_s=now_s, priority=-1 - int(rng.integers(3)),
        cpu=float(rng.integers(0, 4)), models=((), ("T4",), ("T4", "A10"))[int(rng.integers(3))],
        expected_s=float(rng.integers(10, 300)), notice_s=float(rng.integers(0, 20)),
        required=(None, None, "rack")[int(rng.integers(3))],
    )  # fmt: skip


def played(seed: int, steps: int = 30) -> tuple[Story, Plant, list[NodeSeen]]:
    """Gangs of shares and whole units come, end and are evicted; each start is put onto physical devices."""
    rng = np.random.default_rng(seed)
    nodes = [
        node(f"n{at}", int(rng.choice([1, 2, 4, 8])), f"r{at // 3}", cpu=24.0, model=("T4", "A10")[at % 2])
        for at in range(6)
    ]
    quotas = [queue(f"q{at}", int(rng.integers(0, 4)), weight=float(rng.integers(1, 4))) for at in range(3)]
    story, plant = Story(params(*quotas), nodes), Plant(nodes)
    gangs: dict[str, Gang] = {}
    for number in range(steps):
        for more in range(int(rng.integers(0, 4))):
            each = drawn(rng, number * 10 + more, story.now_s)
            gangs[each.name] = each
            story.submit(each)
        if rng.random() < 0.2:
            cordoned = f"n{rng.integers(8)}"
            story.look([replace(each, cordoned=each.name == cordoned) for each in nodes])
        until_s = story.now_s + float(rng.integers(1, 60))
        follow(story, plant, gangs, until_s)
    return story, plant, nodes


def follow(story: Story, plant: Plant, gangs: dict[str, Gang], until_s: float) -> None:
    """Go on, second by second, so that ends reach the plant before the starts that they allow."""
    while story.now_s < until_s:
        seen = len(story.admitted)
        story.to(story.now_s + 1.0)
        begun = {told.gang: told for _, told in story.admitted[seen:]}
        for name in [name for name in plant.places if name in begun or name not in story.room.ledger.holdings]:
            plant.end(name)
        for name, told in begun.items():
            if name in story.room.ledger.holdings:
                plant.start(gangs[name], told)


@given(seed=SEEDS)
@settings(law, max_examples=10)
def test_law_what_is_told_fits_physical_devices_and_nothing_is_counted_twice(seed: int) -> None:
    story, plant, _ = played(seed)
    room = story.room
    estate = room.ledger.estate
    assert room.contradictions() == []
    for at, each in enumerate(estate.nodes):
        assert sorted(
            n for n, shared in zip(plant.held[each.name], plant.shared[each.name], strict=True) if shared
        ) == (sorted(devices(story, each.name)))
        assert sum(n == 0 for n in plant.held[each.name]) >= estate.free_on(at), "free ones are free"
    counted = {name: sum(amount for _, _, amount, _ in places) for name, places in plant.places.items()}
    for name, run in room.runs.all.items():
        assert counted[name] == sum(each.pods * (1000 * each.units + each.share) for each in run.gang.form.pod_sets)
    running = sum(counted[name] for name, run in room.runs.all.items() if run.leaving_s is None)
    kept_for = sum(sum(n for _, n in room.backlog.loads[each.brand].counted) for each in room.kept_for.values())
    assert room.tree.used[0] == [running + kept_for]


@given(seed=SEEDS)
@law
def test_law_once_all_have_ended_every_device_core_and_quota_is_back_exactly(seed: int) -> None:
    story, _, nodes = played(seed, 12)
    story.look(nodes)
    room = story.room
    for name in [*room.backlog.waiting, *room.kept_for, *room.runs.all]:
        room.cancel(name, story.now_s)
    estate = room.ledger.estate
    assert estate.devices is not None
    assert not estate.devices.held.any()
    assert not estate.devices.barred.any()
    assert estate.free.tolist() == [each.units for each in nodes]
    assert estate.spare[:, 0].tolist() == [24.0] * 6
    assert room.tree.used == [[0]] * 4
    assert room.contradictions() == []


@given(seed=SEEDS, priorities=st.integers(1, 3))
@settings(law, max_examples=8)
def test_law_who_leaves_leaves_for_one_that_starts_and_evictions_come_to_rest(seed: int, priorities: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [node(f"n{at}", 8, f"r{at // 3}") for at in range(4)]
    quotas = [queue(f"q{at}", int(rng.integers(0, 9)), weight=float(rng.integers(1, 4))) for at in range(4)]
    story = Story(params(*quotas), nodes, takes_s=lambda gang: 1e9, checks=False)
    for number in range(48):
        asked = [(int(rng.integers(1, 6)), int(rng.choice(AMOUNTS))) for _ in range(int(rng.integers(1, 3)))]
        each = gang(f"g{number}", *asked, team=f"q{rng.integers(4)}", at_s=story.now_s)
        story.submit(replace(each, priority=-int(rng.integers(priorities)) - 1, notice_s=float(rng.integers(0, 40))))
        if number % 24 == 23:
            for _ in range(30):
                story.to(story.now_s + 60.0)
    for at_s, evicted in story.evicted:
        if evicted.beneficiary:
            begun = any(each.gang == evicted.beneficiary and when >= at_s for when, each in story.admitted)
            assert begun, evicted
    keeps_the_peace(story)


@given(seed=SEEDS)
@law
def test_law_a_place_is_found_exactly_where_there_is_one_and_as_if_all_were_scored_anew(seed: int) -> None:
    story, _, _ = played(seed, 8)
    room, rng = story.room, np.random.default_rng(seed)
    estate = room.ledger.estate
    assert estate.devices is not None
    kinds = {0: {kind_of(run.gang.form.pod_sets[0]): 1.0 for run in room.runs.all.values()}}
    placer = Placer(estate, LEVELS, None, kinds)
    for _ in range(20):
        asked = PodSet(1, 0, H100, float(rng.integers(0, 9)), 0.0, int(rng.integers(1, 1000)), frozenset())
        if rng.random() < 0.3:
            asked = replace(asked, units=int(rng.integers(1, 5)), share=0)
        if rng.random() < 0.5:
            asked = replace(asked, models=frozenset(["T4"]))
        able = set()
        for at, each in enumerate(estate.nodes):
            rests = [1000 - held for held in devices(story, each.name)]
            room_for = [1000] * estate.free_on(at) + rests * (not estate.devices.barred[at] and each.usable)
            fits = estate.free_on(at) >= asked.units if asked.units else max(room_for, default=0) >= asked.share
            if fits and each.usable and estate.spare[at, 0] >= asked.cpu and (not asked.models or each.model == "T4"):
                able.add(at)
        wanted = placer.ask(Form((asked,)))
        spots = placer.take(wanted)
        assert (spots is not None) == bool(able)
        if spots is None:
            continue
        assert spots[0].node in able
        placer.give(spots, wanted)
        assert Placer(estate, LEVELS, None, kinds).take(wanted) == spots
        if rng.random() < 0.3:
            placer.give(spots, wanted)
    assert estate.contradictions() == []


@given(seed=SEEDS)
@law
def test_law_the_oldest_gang_starts_by_the_time_that_was_foretold_whatever_shares_come(seed: int) -> None:
    rng = np.random.default_rng(seed)
    story = Story(params(queue("a", reclaims=False), queue("b", reclaims=False)), racks(1, 4, 4))
    for number in range(8):
        amount = int(rng.choice([300, 500, 700, 1000]))
        story.submit(gang(f"first{number}", (2, amount), team="b", expected_s=float(rng.integers(50, 400))))
    story.settle()
    amount = int(rng.choice([4000, 1000, 800]))
    story.submit(gang("head", (4 if amount == 4000 else 14, amount), expected_s=100.0))
    story.settle()
    kept = story.room.ledger.reservations.get("head")
    if kept is None:
        assert "head" in story.order()
        return
    for number in range(40):
        late = gang(
            f"late{number}", (1, int(rng.choice(AMOUNTS[:9]))), team="b", at_s=story.now_s,
            expected_s=float(rng.integers(5, 300)),
        )  # fmt: skip
        story.submit(late)
        story.to(story.now_s + 5.0)
    story.run(kept.start_s + 1.0)
    starts = {each.gang: at_s for at_s, each in story.admitted}
    assert starts["head"] <= kept.start_s
