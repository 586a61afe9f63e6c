"""A simulated fleet is counted at once, and comes to the same to the last bit as its pods one by one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.capacity import leadtime
from autoscaler.core.capacity.leadtime import LeadTrack
from autoscaler.core.observe import alike, pods
from autoscaler.core.observe.freshness import FreshnessTrack
from autoscaler.core.observe.pods import WorkloadTrack, difference
from autoscaler.core.types import Alike, GatewayReading, PodReading, Readings, ReplicaReading, Roster, validate

FLEET = Alike(Roster(("a", "b", "c"), (0.0, 0.0, 40.0), (0.0, 0.0, 10.5)), 31.25, 2.0, 4.0, None)


def at(now_s: float, fleet: Alike | None, gateway: GatewayReading | None = None) -> Readings:
    count = 0 if fleet is None else len(fleet)
    return Readings(now_s, ReplicaReading(count, count), () if fleet is None else fleet, gateway)


def one_by_one(readings: Readings) -> Readings:
    return replace(readings, pods=tuple(readings.pods or ()))


def test_a_fleet_stands_for_its_pods() -> None:
    assert len(FLEET) == 3
    assert FLEET[2] == PodReading("c", 40.0, waiting=2.0, running=4.0, requests_total=20.75)
    assert tuple(FLEET) == FLEET
    validate(at(50.0, FLEET))
    with pytest.raises(ValueError, match=r"pods\[0\].waiting: -1 is negative"):
        validate(at(50.0, replace(FLEET, waiting=-1.0)))


def test_of_pods_that_stay_and_work_none_is_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    track = WorkloadTrack()
    difference(track, at(50.0, FLEET))
    monkeypatch.setattr(Alike, "each", lambda _: pytest.fail("a pod was looked at"))
    seen = difference(track, at(60.0, replace(FLEET, served=41.25)))
    assert (seen.completions, seen.queue, seen.running) == (30.0, 6.0, 12.0)
    assert isinstance(track.pods, alike.AlikeTracks)


Gateway = tuple[float | None, float | None]
Look = tuple[float, int | None, int, float, float, float | None, float | None, Gateway | None]
AMOUNTS = st.one_of(st.sampled_from([0.0, 0.5]), st.floats(0.0, 300.0))
LOOKS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 5.0, 5.003, 31.0]),  # seconds since the last look
        st.one_of(st.just(None), st.just(None), st.integers(0, 7)),  # how many pods stay, where the fleet changes
        st.integers(0, 4),  # and how many come
        st.one_of(st.just(0.0), AMOUNTS),  # what a pod completes
        AMOUNTS,  # what waits in each
        st.one_of(st.none(), AMOUNTS),  # what runs in each
        st.one_of(st.none(), st.floats(0.0, 1.0)),
        st.one_of(st.none(), st.tuples(st.one_of(st.none(), AMOUNTS), st.one_of(st.none(), AMOUNTS))),
    ),
    min_size=2,
    max_size=12,
)


@given(LOOKS)
def test_a_fleet_comes_to_the_same_as_its_pods_one_by_one(looks: list[Look]) -> None:
    """Fleets of up to eleven pods that come and go, work, stand still and wait, with a gateway and without one."""
    tracks, freshness = (WorkloadTrack(), WorkloadTrack()), (FreshnessTrack(), FreshnessTrack())
    leads = LeadTrack(), LeadTrack()
    now_s, served, named, arrived = 1_700_000_000.1, 0.0, 0, 0.0
    roster = Roster((), (), ())
    for dt_s, stay, come, done, waiting, running, kv, gateway in looks:
        now_s, served = now_s + dt_s, served + done
        if stay is not None:
            kept = (roster.names[:stay], roster.since_s[:stay], roster.begun[:stay])
            names = tuple(f"replica-{named + i}" for i in range(come))
            named += come
            roster = Roster(kept[0] + names, kept[1] + (now_s,) * come, kept[2] + (served,) * come)
        arrived += 0.0 if gateway is None else gateway[1] or 0.0
        front = None if gateway is None else GatewayReading(gateway[0], None if gateway[1] is None else arrived)
        fleet = Alike(roster, served, waiting, running, kv) if roster.names else None
        read = at(now_s, fleet, front)
        each = one_by_one(read)
        assert repr(difference(tracks[0], read)) == repr(difference(tracks[1], each))
        assert pods.alike(tracks[0], tracks[1])
        for fresh, told in zip(freshness, (read, each), strict=True):
            fresh.note(told)
        assert (freshness[0].seen_s, freshness[0].sources) == (freshness[1].seen_s, freshness[1].sources)
        assert leadtime.follow(leads[0], read, 60.0) == leadtime.follow(leads[1], each, 60.0)
        assert leads[0] == leads[1]
