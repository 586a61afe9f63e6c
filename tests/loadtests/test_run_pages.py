"""What a controller knows of simulated pods: pages up to a second old, and pods whose page was not read yet."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from autoscaler.core.types import GatewayReading, PodReading, Readings, ReplicaReading
from loadtests.run import pages
from loadtests.run.pages import Pages


def shown(now_s: float, names: tuple[str, ...] = ("a", "b")) -> Readings:
    """What the plant shows at once: each pod has completed ten requests for each second so far."""
    pods = tuple(PodReading(name, 0.0, waiting=1.0, running=2.0, requests_total=10.0 * now_s) for name in names)
    return Readings(now_s, ReplicaReading(len(names), len(names)), pods, GatewayReading(3.0, 100.0))


def totals(readings: Readings) -> dict[str, float | None]:
    return {pod.name: pod.requests_total for pod in readings.pods or ()}


def known() -> Pages:
    return Pages(np.random.default_rng(0))


def test_each_page_is_read_once_a_second_and_two_pods_at_two_instants() -> None:
    read = known()
    seen = [totals(read.known(shown(step / 10))) for step in range(101)]
    news = {
        name: [at for at in range(1, 101) if seen[at][name] != seen[at - 1][name]] for name in ("a", "b")
    }  # fmt: skip
    assert all(len(at) == 10 for at in news.values())
    assert all(later - earlier == 10 for at in news.values() for earlier, later in pairwise(at))
    assert {at % 10 for at in news["a"]} != {at % 10 for at in news["b"]}
    assert all(seen[at]["a"] == pytest.approx(float(at)) for at in news["a"])


@pytest.mark.parametrize(("share", "told"), [(1.0, None), (0.0, 50.0)], ids=["looked-at-first", "read-first"])
def test_a_pod_that_has_just_become_ready_is_there_and_its_page_may_come_after_the_look(
    share: float, told: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "FIRST_LATE", share)
    read = known()
    assert totals(read.known(shown(4.9))) == {"a": 49.0, "b": 49.0}, "what was there before is read"
    found = read.known(shown(5.0, ("a", "b", "c")))
    assert [pod.name for pod in found.pods or ()] == ["a", "b", "c"]
    assert totals(found)["c"] == told
    assert totals(read.known(shown(6.0, ("a", "b", "c"))))["c"] == 60.0, "a second later it is read in either case"


def test_no_gateway_stands_before_the_pods_and_an_outage_is_no_pod_that_went() -> None:
    read = known()
    assert read.known(shown(1.0)).gateway is None
    assert read.known(replace(shown(1.1), pods=None)).pods is None
    assert totals(read.known(shown(1.15)))["a"] in {10.0, 11.5}


def test_a_pod_that_is_gone_is_told_of_no_more() -> None:
    read = known()
    read.known(shown(1.0))
    assert totals(read.known(shown(2.0, ("b",)))) == {"b": 20.0}
