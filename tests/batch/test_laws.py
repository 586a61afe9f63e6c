"""Laws that hold for every story: drawn trees, gangs, ends, evictions, losses and restarts of nodes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autoscaler.core.batch import durable
from autoscaler.core.batch.gangs import Gang
from autoscaler.core.batch.loans import LoanBound
from autoscaler.core.batch.owners import Owner, PodSeen
from autoscaler.core.batch.params import BatchParams, Order, QueueSpec
from autoscaler.core.batch.reasons import BatchReason
from tests.batch.builders import H100, form, node, params, queue
from tests.batch.story import Story

law = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEEDS = st.integers(0, 10_000)
SIZES = ((1, 1), (2, 1), (1, 4), (4, 2), (1, 8), (2, 8), (3, 4), (5, 1), (1, 3))


def tree_of(rng: np.random.Generator) -> BatchParams:
    """Two teams of three queues, with what is guaranteed at most what there is."""
    queues: list[QueueSpec] = [queue("left", weight=float(rng.integers(1, 4))), queue("right")]
    for name in ("l0", "l1", "l2", "r0", "r1", "r2"):
        quota = {"lendable": int(rng.integers(0, 9))} if rng.random() < 0.3 else {}
        queues.append(
            queue(
                name, int(rng.integers(0, 9)), "left" if name[0] == "l" else "right", quota,
                weight=float(rng.integers(1, 4)), order=Order.STRICT if rng.random() < 0.2 else Order.FAIR,
                min_runtime_s=float(rng.choice([0.0, 60.0])), grace_s=float(rng.choice([0.0, 120.0])),
            )
        )  # fmt: skip
    return params(*queues)


def gang_of(rng: np.random.Generator, number: int, now_s: float, *, priorities: int = 3) -> Gang:
    pods, units = SIZES[int(rng.integers(len(SIZES)))]
    required = str(rng.choice(["rack", "node"])) if rng.random() < 0.2 else None
    if required == "node" and pods * units > 8:
        required = None
    return Gang(
        f"g{number}", f"{rng.choice(['l', 'r'])}{rng.integers(3)}",
        form(pods, units, required=required, cpu=(0.0, 3.0, 6.0)[number % 3] * units), now_s,
        -1 - int(rng.integers(priorities)), expected_s=float(rng.integers(20, 900)),
        notice_s=float(rng.integers(0, 40)), restart_s=float(rng.integers(0, 60)),
    )  # fmt: skip


def story_of(seed: int, steps: int = 15) -> Story:
    """A story in which gangs arrive, end, are deleted, and nodes come and go; each cycle is checked."""
    rng = np.random.default_rng(seed)
    nodes = [node(f"n{at}", rack=f"r{at // 3}", cpu=40.0) for at in range(6)]
    story = Story(
        tree_of(rng), nodes, takes_s=lambda gang: (gang.expected_s or 0.0) * (0.5 + int(gang.name[1:]) % 7 / 5)
    )
    for number in range(steps):
        for _ in range(int(rng.integers(0, 4))):
            story.submit(gang_of(rng, number * 10 + int(rng.integers(10)), story.now_s))
        what = rng.random()
        if what < 0.1 and story.room.backlog.waiting:
            gone = next(iter(story.room.backlog.waiting))
            story.room.cancel(gone, story.now_s)
            story.finished[gone] = story.now_s
        elif what < 0.2:
            at = int(rng.integers(6))
            story.look([replace(each, cordoned=each.name == f"n{at}") for each in nodes])
        elif what < 0.25:
            story.look([each for each in nodes if each.name != f"n{rng.integers(6)}"])
        elif what < 0.35:
            story.look(nodes)
        story.to(story.now_s + float(rng.integers(1, 60)))
        cores_are_there(story)
    story.look(nodes)
    return story


def cores_are_there(story: Story) -> None:
    """No cores are held twice, and what is spare is what nobody holds and nothing is kept of."""
    ledger = story.room.ledger
    left = [each.cpu for each in ledger.estate.nodes]
    for holding in ledger.holdings.values():
        for spot in holding.spots:
            left[spot.node] -= spot.cpu
    assert min(left, default=0.0) >= 0.0
    for reservation in ledger.reservations.values():
        for spot in reservation.spots:
            left[spot.node] -= spot.cpu
    assert ledger.estate.spare[:, 0].tolist() == left


@example(seed=649)
@given(seed=SEEDS)
@law
def test_law_books_agree_gangs_are_whole_and_nothing_is_lost(seed: int) -> None:
    story = story_of(seed)
    room = story.room
    assert room.contradictions() == []
    known = {*room.backlog.waiting, *room.kept_for, *room.runs.all}
    started = {each.gang for _, each in story.admitted}
    assert started - set(story.finished) <= known
    for name, run in room.runs.all.items():
        assert sum(spot.units for spot in room.ledger.holdings[name].spots) == sum(n for _, n in run.load.units)


@example(seed=649)
@given(seed=SEEDS)
@law
def test_law_who_leaves_leaves_for_one_that_starts(seed: int) -> None:
    story = story_of(seed)
    for at_s, evicted in story.evicted:
        if not evicted.beneficiary:
            continue
        begun = any(each.gang == evicted.beneficiary and when >= at_s for when, each in story.admitted)
        room = story.room
        still = evicted.beneficiary in room.kept_for or evicted.beneficiary in room.backlog.waiting
        gone = story.finished.get(evicted.beneficiary, 0.0) >= at_s
        assert begun or still or gone, evicted


def quiet_waves(seed: int, priorities: int, *, gangs: int, waves: int, steps: int) -> Story:
    """Waves of gangs that never end, with quiet after each: nothing that happens then is news."""
    rng = np.random.default_rng(seed)
    nodes = [node(f"n{at}", rack=f"r{at // 3}") for at in range(6)]
    story = Story(tree_of(rng), nodes, takes_s=lambda gang: 1e9, checks=False)
    for wave in range(waves):
        for number in range(gangs):
            story.submit(gang_of(rng, wave * 100 + number, story.now_s, priorities=priorities))
        for _ in range(steps):
            story.to(story.now_s + 60.0)
        assert len(story.evicted) <= 2 * (wave + 1) * gangs, "bounded by what arrived"
    return story


def keeps_the_peace(story: Story) -> None:
    """No fair share takes back, even through others, what was taken; only guarantees evict one gang over and over."""
    ahead: dict[str, set[str]] = {}
    willing: dict[str, int] = {}
    for _, each in story.evicted:
        if each.reason is BatchReason.FAIR_SHARE:
            assert each.gang not in ahead.get(each.beneficiary, set()), (each, "a ring")
        gains = {each.beneficiary, *ahead.get(each.beneficiary, set())}
        for name in [name for name, those in ahead.items() if each.gang in those] + [each.gang]:
            ahead.setdefault(name, set()).update(gains)
        if each.reason is not BatchReason.RECLAIMED:
            assert willing.get(each.gang, 0) < story.params.max_evictions, each
        willing[each.gang] = willing.get(each.gang, 0) + 1
    before = len(story.evicted)
    for _ in range(20):
        story.to(story.now_s + 60.0)
    assert len(story.evicted) == before, "at rest"
    assert story.room.contradictions() == []


@example(seed=119, priorities=3)
@example(seed=135, priorities=3)
@example(seed=131, priorities=3)
@example(seed=341, priorities=1)
@example(seed=1211, priorities=3)
@given(seed=SEEDS, priorities=st.integers(1, 3))
@law
def test_law_without_news_evictions_come_to_rest_and_no_exchange_is_undone(seed: int, priorities: int) -> None:
    keeps_the_peace(quiet_waves(seed, priorities, gangs=24, waves=3, steps=40))


@given(seed=SEEDS)
@law
def test_law_nobody_stays_below_a_guarantee_beyond_the_grace_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    quotas = [queue(f"q{at}", 12, grace_s=60.0) for at in range(4)]
    nodes = [node(f"n{at}", rack=f"r{at // 3}") for at in range(6)]
    story = Story(params(*quotas), nodes, takes_s=lambda gang: 1e9)
    for number in range(30):
        pods = int(rng.integers(1, 5))
        story.submit(Gang(f"g{number}", f"q{rng.integers(4)}", form(pods, 1), story.now_s, notice_s=10.0))
        story.to(story.now_s + float(rng.integers(1, 30)))
    story.to(story.now_s + 200.0)
    tree, room = story.room.tree, story.room
    for waiting in room.backlog.waiting.values():
        load = room.backlog.loads[waiting.brand]
        assert not tree.within(waiting.queue, load), (waiting.gang, tree.used)


@given(seed=SEEDS)
@law
def test_law_the_oldest_gang_starts_by_the_time_that_was_foretold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [node(f"n{at}", rack=f"r{at // 3}") for at in range(4)]
    story = Story(params(queue("a", reclaims=False), queue("b", reclaims=False)), nodes)
    for number in range(8):
        story.submit(Gang(f"first{number}", "b", form(1, 4), 0.0, expected_s=float(rng.integers(50, 400))))
    story.settle()
    story.submit(Gang("head", "a", form(4, 8), 0.0, expected_s=100.0))
    story.settle()
    foretold_s = story.room.ledger.reservations["head"].start_s
    for number in range(40):
        pods, units = SIZES[int(rng.integers(len(SIZES)))]
        story.submit(Gang(f"late{number}", "b", form(pods, units), story.now_s, expected_s=float(rng.integers(5, 300))))
        story.to(story.now_s + 5.0)
    story.run(foretold_s + 1.0)
    starts = {each.gang: at_s for at_s, each in story.admitted}
    assert starts["head"] <= foretold_s


def test_law_the_same_story_ends_in_the_same_orders() -> None:
    first, second = story_of(7), story_of(7)
    assert first.admitted == second.admitted
    assert first.evicted == second.evicted


@pytest.mark.slow
@pytest.mark.timeout(300)
@given(seed=st.integers(10_000, 2**31), priorities=st.integers(1, 4))
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_law_no_preemption_loop_in_60000_quiet_steps(seed: int, priorities: int) -> None:
    keeps_the_peace(quiet_waves(seed, priorities, gangs=24, waves=4, steps=50))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_gang_is_evicted_without_end_in_many_random_steps() -> None:
    evictions = admissions = 0
    for seed in range(40):
        story = story_of(20_000 + seed, steps=40)
        evictions += len(story.evicted)
        admissions += len(story.admitted)
        per_gang: dict[str, int] = {}
        for _, each in story.evicted:
            per_gang[each.gang] = per_gang.get(each.gang, 0) + 1
        assert max(per_gang.values(), default=0) <= 12, (seed, per_gang)
    assert admissions > 1000
    assert evictions > 40


@given(seed=SEEDS)
@law
def test_law_pods_seen_late_or_too_long_and_restarts_upset_no_books(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [node(f"n{at}", rack=f"r{at // 3}", warm_units=8 * (at == 5)) for at in range(6)]
    story = Story(tree_of(rng), nodes, takes_s=lambda gang: 1e9)
    gangs: dict[str, Gang] = {}
    pods: dict[str, list[PodSeen]] = {}
    for number in range(25):
        mine = replace(gang_of(rng, number % 12, story.now_s), lendable=bool(rng.random() < 0.3))
        gangs[mine.name] = mine
        story.room.lend({H100: LoanBound(int(rng.integers(0, 9)), expected_s=7200.0)})
        story.submit(mine)
        story.settle()
        for _, each in story.admitted:
            run = story.room.runs.all.get(each.gang)
            if run is not None and run.leaving_s is None:
                owner = Owner.LOAN if run.on_loan else Owner.FOREIGN
                held = story.room.ledger.holdings[each.gang].spots
                pods[each.gang] = [PodSeen(nodes[spot.node].name, H100, spot.units, owner, each.gang) for spot in held]
        name = f"g{rng.integers(12)}"
        what = rng.random()
        if what < 0.25:
            story.room.cancel(name, story.now_s)  # its pods are seen for a while still
        elif what < 0.45:
            pods.pop(name, None)
            story.room.left(name, story.now_s)
        elif what < 0.6:
            again = Story(story.params, nodes, [pod for each in pods.values() for pod in each], now_s=story.now_s)
            durable.unpack(again.room, durable.pack(story.room, story.now_s), story.now_s)
            for known in gangs.values():
                whole = sum(pod.units for pod in pods.get(known.name, ())) == sum(known.form.units().values())
                if whole and rng.random() < 0.7:
                    again.room.adopt(known, story.now_s, story.now_s)
                else:
                    again.submit(known)
            story = again
        lost = f"n{rng.integers(6)}" if rng.random() < 0.2 else ""
        seen = [each for each in nodes if each.name != lost]
        story.look(seen, [pod for each in pods.values() for pod in each if pod.node != lost])
        story.to(story.now_s + float(rng.integers(1, 90)))
        story.look(nodes, [pod for each in pods.values() for pod in each])
        assert story.room.contradictions() == []
