"""A gateway's page that many workloads read: one question for all of them, and to each what is its own."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.engines.catalogue import LLM_D_EPP
from autoscaler.adapters.engines.facts import PageReader
from autoscaler.adapters.engines.shared import Split
from autoscaler.adapters.engines.targets import GatewayTarget
from autoscaler.ports import Fault
from tests.engines.pods import serving
from tests.engines.test_scraper import scraping, until

EDGE, MOVED = "127.1.0.7", "127.1.0.8"


def behind(number: int, port: int, ip: str = EDGE, profile: str = "llm-d-epp") -> GatewayTarget:
    """Workload `number` behind the gateway's one pod."""
    name = f"chat-{number}"
    return GatewayTarget(f"team/{name}", "epp", f"uid/{name}", ip, port, "team", name, profile=profile)


def page(queues: dict[str, int]) -> str:
    lines = [f'llm_d_epp_flow_control_queue_size{{inference_pool="{pool}"}} {n}\n' for pool, n in queues.items()]
    return "# TYPE llm_d_epp_flow_control_queue_size gauge\n" + "".join(lines)


async def test_a_gateway_in_front_of_fifty_workloads_is_asked_once_an_interval_and_each_learns_its_own() -> None:
    async with serving(EDGE) as pods:
        pods.answers = {EDGE: page({f"chat-{number}": number for number in range(50)})}
        async with scraping(pods, interval_s=0.2) as (scraper, news):
            for number in range(50):
                scraper.put(behind(number, pods.port))
            await until(lambda: len(pods.asked) == 5)
            took_s = pods.asked[4][0] - pods.asked[0][0]
            readings = [scraper.sample(f"team/chat-{number}").gateway for number in range(50)]
    assert took_s > 0.5, "five questions in five intervals; it were 250"
    assert [reading.queued for reading in readings if reading is not None] == list(range(50))
    assert set(news) == {f"team/chat-{number}" for number in range(50)}


async def test_it_is_asked_until_the_last_of_them_goes_and_where_it_moves_to() -> None:
    async with serving(EDGE, MOVED) as pods:
        pods.answers = {EDGE: page({"chat-0": 1, "chat-1": 2}), MOVED: page({"chat-0": 3, "chat-1": 4})}
        async with scraping(pods) as (scraper, _):

            def queued(number: int) -> float | None:
                reading = scraper.sample(f"team/chat-{number}").gateway
                return None if reading is None else reading.queued

            for number in (0, 1):
                scraper.put(behind(number, pods.port))
            await until(lambda: len(pods.asked) >= 2)
            scraper.drop("uid/chat-0")
            asked = len(pods.asked)
            await until(lambda: len(pods.asked) >= asked + 3)
            assert queued(1) == 2
            scraper.put(behind(1, pods.port, MOVED))
            await until(lambda: queued(1) == 4)
            old = sum(ip == EDGE for _, ip, _ in pods.asked)
            await until(lambda: len(pods.asked) > asked + 8)
            assert sum(ip == EDGE for _, ip, _ in pods.asked) == old, "nobody reads the old one"
            scraper.forget("team/chat-1")
            gone = len(pods.asked)
            await asyncio.sleep(0.3)
            assert len(pods.asked) <= gone + 1, "one may have been on its way"


async def test_a_gateway_that_fails_and_a_pool_that_is_not_on_the_page_are_each_workloads_own_trouble() -> None:
    async with serving(EDGE) as pods:
        pods.answers = {EDGE: page({"chat-0": 7})}
        async with scraping(pods) as (scraper, _):
            for number in (0, 1):
                scraper.put(behind(number, pods.port))
            await until(lambda: bool(scraper.found("team/chat-1").silent))
            assert scraper.found("team/chat-0").silent == ()
            assert scraper.found("team/chat-1").silent[0].fault is Fault.INVALID
            pods.answers = {}
            await until(lambda: bool(scraper.found("team/chat-0").silent))
            assert "HTTP 404" in scraper.found("team/chat-0").silent[0].message
            assert "HTTP 404" in scraper.found("team/chat-1").silent[0].message


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["llm_d_epp_flow_control_queue_size", "llm_d_epp_request_total"]),
        st.fixed_dictionaries(
            {}, optional={"inference_pool": st.sampled_from("abc"), "namespace": st.sampled_from(["team", "other"])}
        ),
        st.integers(0, 9),
    ),
    max_size=20,
)


@given(ROWS, st.sampled_from("abc"))
def test_what_is_split_by_pool_says_of_each_what_the_whole_page_says(
    samples: list[tuple[str, dict[str, str], int]], pool: str
) -> None:
    lines = []
    for name, labels, number in samples:
        told = ",".join(f'{key}="{value}"' for key, value in labels.items())
        lines.append(f"{name}{{{told}}} {number}\n")
    reader, own = PageReader(LLM_D_EPP), GatewayTarget("team/w", "p", "u", EDGE, 1, "team", pool).own
    rows = reader.rows("".join(lines).encode())
    assert rows is not None
    assert reader.combined(Split(rows, own[0][0]).rows(pool), own) == reader.combined(rows, own)
