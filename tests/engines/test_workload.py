"""What a workload's pages amount to over time: losses, recoveries, news; on given instants, without sockets."""

import pytest

from autoscaler.adapters.engines.catalogue import LLM_D_EPP, PROFILES, VLLM
from autoscaler.adapters.engines.facts import Facts, PageReader
from autoscaler.adapters.engines.fetch import Trouble
from autoscaler.adapters.engines.profiles import Fact
from autoscaler.adapters.engines.targets import GatewayTarget, ScrapeTarget
from autoscaler.adapters.engines.workload import WorkloadBook, useless
from autoscaler.core.observe.freshness import Freshness, FreshnessTrack
from autoscaler.core.types import PodReading, Readings, ReplicaReading
from autoscaler.ports import Fault, PortError
from tests.engines.pods import vllm

ORIGIN_S = 1e9
GONE = Trouble(Fault.TIMEOUT, "no whole page within 1 s")
READ = PageReader(VLLM)
READ_GATEWAY = PageReader(LLM_D_EPP)


def facts(*numbers: float, **more: float) -> Facts:
    return READ.facts(vllm(*numbers, **more).encode())


def picker(queued: float, dispatched: float, away: float = 0) -> Facts:
    page = (
        f"llm_d_epp_flow_control_queue_size {queued}\nllm_d_epp_request_total {dispatched}\n"
        f'llm_d_epp_flow_control_requests_total{{outcome="EvictedTTL"}} {away}\n'
    )
    return READ_GATEWAY.facts(page.encode())


class Scene:
    """A book with pods 0..n-1, all ready, and gateways named by letters."""

    def __init__(self, pods: int = 0, gateways: str = "") -> None:
        self.book = WorkloadBook(stale_s=3.0)
        for number in range(pods):
            self.put(number)
        for name in gateways:
            self.book.gateways.put(GatewayTarget("team/chat", name, name, "10.0.9.9", 9090, "team", "chat"))

    def put(self, number: int, ready_s: float | None = 0.0) -> None:
        self.book.pods.put(ScrapeTarget("team/chat", f"p{number}", str(number), "10.0.0.1", 80, ready_since_s=ready_s))

    def page(self, number: int, at_s: float, *numbers: float) -> bool:
        target = self.book.pods.pods[str(number)].target
        return self.book.absorb(target, facts(*numbers), now_s=ORIGIN_S + at_s, mono_s=at_s)

    def miss(self, number: int, at_s: float) -> bool:
        return self.book.pods.miss(str(number), GONE, mono_s=at_s)

    def gateway(self, name: str, at_s: float, read: Facts) -> bool:
        target = self.book.gateways.gateways[name].target
        return self.book.absorb(target, read, now_s=ORIGIN_S + at_s, mono_s=at_s)

    def sample(self, at_s: float):
        return self.book.sample("team/chat", ORIGIN_S + at_s, at_s)

    def pods(self, at_s: float) -> dict[str, PodReading]:
        return {pod.name: pod for pod in self.sample(at_s).pods or ()}


def test_a_sample_is_of_the_instant_of_its_newest_page() -> None:
    scene = Scene(2)
    scene.page(0, 1.0)
    scene.page(1, 1.6)
    assert scene.sample(2.0).at_s == ORIGIN_S + 1.6
    assert scene.sample(2.4) == scene.sample(2.0), "without a new page it is the same sample"


def test_a_page_counts_for_three_seconds_and_then_its_pod_is_there_without_numbers() -> None:
    scene = Scene(2)
    for second in range(10):
        scene.page(0, float(second), 1, 2)
        if second < 5:
            scene.page(1, float(second), 3, 4)
    assert scene.pods(7.0)["p1"].waiting == 3
    assert scene.pods(7.1)["p1"] == PodReading("p1", 0.0)
    assert scene.pods(7.1)["p0"].waiting == 1


def test_when_every_pod_is_silent_there_is_no_sample_rather_than_an_empty_one() -> None:
    scene = Scene(2)
    scene.page(0, 1.0, 5)
    scene.page(1, 1.0, 5)
    scene.miss(0, 4.5)
    scene.miss(1, 4.6)
    with pytest.raises(PortError, match=r"no whole page within 1 s \(2 of 2 silent targets\)") as error:
        scene.sample(4.7)
    assert error.value.fault is Fault.TIMEOUT


def test_half_of_the_pods_falling_silent_never_makes_a_demand_signal_fresh_for_the_core() -> None:
    """The core shrinks on fresh signals only; that is why silent pods stay in the sample, without numbers."""
    scene, track = Scene(10), FreshnessTrack()
    replicas = ReplicaReading(10, 10)
    for second in range(0, 60, 5):
        for pod in range(10):
            if pod < 5 or second < 20:
                scene.page(pod, float(second), 1, 2, 3 * second)
        sample = scene.sample(float(second))
        track.note(Readings(sample.at_s, replicas, sample.pods))
        for signal in ("arrivals", "queue", "in_flight", "tokens", "kv"):
            fresh = track.state(signal, sample.at_s, 5.0) is Freshness.FRESH
            assert fresh is (second < 20), (second, signal)


@pytest.mark.parametrize("read", [True, False], ids=["read before", "known from following only"])
def test_pods_that_served_and_can_neither_be_asked_nor_are_ready_tell_of_no_load_of_zero(read: bool) -> None:
    """A network split: every pod behind it is not ready within a minute, and none of them can be asked."""
    scene = Scene(pods=2)
    for number in (0, 1):
        if read:
            scene.page(number, 0.0, 0, 8)
        scene.put(number, None)
        scene.miss(number, 40.0)
    with pytest.raises(PortError, match="2 of 2 silent targets"):
        scene.sample(40.0)


def test_a_pod_that_went_away_is_no_silent_pod() -> None:
    scene = Scene(2)
    scene.page(0, 1.0, 2)
    scene.page(1, 1.0, 3)
    scene.book.pods.drop("1")
    assert list(scene.pods(1.5)) == ["p0"]
    scene.book.pods.drop("0")
    assert scene.sample(2.0).pods == ()
    assert scene.sample(2.0).at_s == ORIGIN_S + 2.0


def test_starting_pods_are_not_counted_until_they_are_ready_or_show_requests() -> None:
    scene = Scene()
    scene.put(0, ready_s=None)
    assert scene.sample(1.0).pods == (), "no pod serves yet, which is known"
    scene.page(0, 1.0, 0, 0)
    assert scene.sample(1.5).pods == ()
    scene.page(0, 2.0, 0, 3)
    assert scene.pods(2.5)["p0"].running == 3, "unready under overload: its requests are demand"
    scene.miss(0, 9.0)
    with pytest.raises(PortError):
        scene.sample(9.0)


def test_news_is_a_first_page_a_loss_a_return_and_a_first_waiting_request_and_nothing_else() -> None:
    scene = Scene(2)
    told = []

    def say(at_s: float, news: bool) -> None:
        if news:
            told.append(at_s)

    say(1.0, scene.page(0, 1.0))
    say(1.5, scene.page(1, 1.5))
    for second in range(2, 6):
        say(second, scene.page(0, second, 0, second, 10 * second))
        say(second + 0.5, scene.page(1, second + 0.5, 0.4, 1))
    say(6.0, scene.page(0, 6.0, 1))
    say(6.5, scene.page(1, 6.5, 50))
    say(7.0, scene.page(0, 7.0, 0))
    say(7.5, scene.page(1, 7.5, 0))
    say(8.0, scene.page(0, 8.0, 1))
    for at_s in (9.0, 10.0, 11.5, 12.0, 13.0):
        say(at_s, scene.miss(0, at_s))
    say(14.0, scene.page(0, 14.0))
    assert told == [1.0, 1.5, 6.0, 8.0, 11.5, 14.0]


def test_pages_of_a_pod_that_is_not_ready_are_no_news_and_its_first_as_a_ready_one_is() -> None:
    scene = Scene()
    scene.put(0, ready_s=None)
    assert not scene.page(0, 1.0)
    scene.put(0, ready_s=1.5)
    assert scene.page(0, 2.0)
    assert not scene.page(0, 3.0)


def test_what_a_lost_or_gone_pod_had_waiting_does_not_hide_the_next_first_request() -> None:
    scene = Scene(2)
    scene.page(0, 1.0, 9)
    scene.page(1, 1.0, 0)
    scene.miss(0, 5.0)
    assert scene.page(1, 5.0, 1), "the other pod's queue is unknown: this is the first request that is known to wait"
    scene.page(1, 6.0, 0)
    scene.page(0, 6.0, 9)
    scene.book.pods.drop("0")
    assert scene.page(1, 7.0, 1)


def test_a_gateway_tells_queue_and_arrivals_even_with_no_pod_at_all() -> None:
    scene = Scene(gateways="a")
    scene.gateway("a", 1.0, picker(0, 100))
    scene.gateway("a", 2.0, picker(7, 100))
    sample = scene.sample(2.0)
    assert sample.pods == ()
    assert sample.gateway is not None
    assert (sample.gateway.queued, sample.gateway.requests_total) == (7, 107), "those that wait have arrived"


def test_arrivals_are_those_sent_on_turned_away_and_waiting_and_count_each_request_once() -> None:
    scene = Scene(gateways="a")
    for at_s, page in enumerate([picker(0, 100), picker(5, 100), picker(2, 103), picker(0, 103, away=2)]):
        scene.gateway("a", float(at_s), page)
        reading = scene.sample(float(at_s)).gateway
        assert reading is not None
        assert reading.requests_total == [100, 105, 105, 105][at_s]


def test_a_request_between_queue_and_counter_neither_resets_nor_doubles() -> None:
    scene = Scene(gateways="a")
    totals = []
    for at_s, page in enumerate([picker(5, 100), picker(4, 100), picker(4, 101), picker(4, 103)]):
        scene.gateway("a", float(at_s), page)
        reading = scene.sample(float(at_s)).gateway
        totals.append(reading.requests_total if reading else None)
    assert totals == [105, 105, 105, 107]


def test_pickers_that_restart_come_or_go_cause_no_jump() -> None:
    scene = Scene(gateways="ab")
    scene.gateway("a", 1.0, picker(0, 1000))
    scene.gateway("b", 1.0, picker(0, 5000))

    def total(at_s: float) -> float | None:
        reading = scene.sample(at_s).gateway
        return reading.requests_total if reading else None

    start = total(1.0)
    scene.gateway("b", 2.0, picker(0, 5010))
    assert total(2.0) == (start or 0) + 10
    scene.gateway("a", 3.0, picker(0, 3))
    assert total(3.0) == (start or 0) + 10, "a restarted: what it counts now began anew"
    scene.gateway("a", 4.0, picker(0, 8))
    assert total(4.0) == (start or 0) + 15
    scene.book.gateways.drop("b")
    assert total(4.0) == (start or 0) + 15


def test_one_silent_picker_of_two_makes_the_gateway_missing_not_half_as_long() -> None:
    scene = Scene(1, gateways="ab")
    for at_s in (1.0, 2.0):
        scene.gateway("a", at_s, picker(10, 100))
        scene.gateway("b", at_s, picker(10, 100))
        scene.page(0, at_s)
    assert scene.sample(2.0).gateway is not None
    scene.gateway("a", 6.0, picker(10, 110))
    scene.page(0, 6.0)
    assert scene.book.gateways.miss("b", GONE, mono_s=6.0)
    assert scene.sample(6.0).gateway is None
    assert scene.pods(6.0)["p0"].waiting == 0


def test_without_flow_control_there_is_no_queue_and_that_is_not_an_empty_one() -> None:
    scene = Scene(gateways="a")
    scene.gateway("a", 1.0, READ_GATEWAY.facts(b"llm_d_epp_request_total 9\n"))
    reading = scene.sample(1.0).gateway
    assert reading is not None
    assert (reading.queued, reading.requests_total) == (None, 9)


def test_a_picker_that_has_sent_nothing_on_yet_shows_its_queue() -> None:
    """It started while there was no pod: its counter of requests sent on does not exist before the first one."""
    page = READ_GATEWAY.facts(b"llm_d_epp_flow_control_queue_size 3\n")
    assert useless(page, LLM_D_EPP) is None
    scene = Scene(gateways="a")
    assert scene.gateway("a", 1.0, page), "the first request waits: news"
    reading = scene.sample(1.0).gateway
    assert reading is not None
    assert (reading.queued, reading.requests_total) == (3, None)


def test_the_report_names_what_was_found_what_was_not_and_who_is_silent() -> None:
    scene = Scene(3)
    scene.page(0, 1.0)
    page = b"vllm:num_requests_waiting 3\nvllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 1.2\n"
    scene.book.pods.absorb("1", READ.facts(page), mono_s=1.0)
    scene.miss(2, 1.0)
    found = scene.book.found(PROFILES, 1.5)
    assert found.answering == 2
    assert [(silent.pod, silent.message) for silent in found.silent] == [("p2", GONE.message)]
    assert found.names[Fact.REQUESTS] == "vllm:request_success_total"
    assert found.missing == {}
    assert found.impossible == {Fact.KV_USED: 1}
    lonely = Scene(1)
    lonely.book.pods.absorb("0", READ.facts(b"vllm:num_requests_running 1\n"), mono_s=1.0)
    missing = lonely.book.found(PROFILES, 1.5).missing
    assert missing[Fact.WAITING] == ("vllm:num_requests_waiting_by_reason", "vllm:num_requests_waiting")
    assert Fact.RUNNING not in missing
    old = Scene(1)
    old.book.pods.absorb("0", READ.facts(page), mono_s=1.0)
    assert Fact.WAITING_DEFERRED not in old.book.found(PROFILES, 1.5).missing, "versions before 0.29 do not have it"
