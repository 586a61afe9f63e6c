"""Which workloads there are, from the labels of their series and what kube-state-metrics says of their pods."""

from collections.abc import Mapping

import numpy as np
import pytest
from aiohttp import web

from autoscaler.adapters.engines.catalogue import SGLANG, VLLM
from autoscaler.adapters.engines.profiles import custom
from autoscaler.adapters.prometheus import discovery
from autoscaler.adapters.prometheus.discovery import discover
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.history import remembering
from autoscaler.adapters.prometheus.promql import parse_matchers
from autoscaler.adapters.prometheus.questions import Subject, Window
from autoscaler.adapters.prometheus.search import Discovered, Search, Wanted
from autoscaler.errors import InputError
from autoscaler.ports import Fault as PortFault
from autoscaler.ports import PortError
from tests.prometheus.past import FakePast, Fault, Form, error, past, persistence

WINDOW = Window(1_700_000_010, 30, 40_320)
SET = "-7d4b9c6f58"
Rows = list[tuple[dict[str, str], np.ndarray]]


def engine(pod: str, name: str = "vllm:num_requests_running", **labels: str) -> dict[str, str]:
    return {"__name__": name, "namespace": "team", "pod": pod, "job": "pods", **labels}


def pod_owner(pod: str, kind: str, name: str) -> dict[str, str]:
    labels = {"namespace": "team", "pod": pod, "owner_kind": kind, "owner_name": name}
    return {"__name__": "kube_pod_owner", **labels}


def set_owner(replica_set: str, name: str) -> dict[str, str]:
    labels = {"namespace": "team", "replicaset": replica_set, "owner_kind": "Deployment", "owner_name": name}
    return {"__name__": "kube_replicaset_owner", **labels}


def scraped(count: float, job: str = "pods"):
    return lambda t_s: [({"job": job}, np.full(t_s.size, count))]


async def looked(fake: FakePast, **how) -> Discovered:
    async with remembering(Endpoint(fake.url)) as history:
        return await discover(history, persistence(), Search(Endpoint(fake.url), **how), WINDOW)


async def found(engines: list[dict[str, str]], owners: list[dict[str, str]] = [], **how) -> Mapping[str, Subject]:  # noqa: B006 - never changed
    async with past() as fake:
        fake.series = {"num_requests_running": engines, "kube_pod_owner": owners}
        fake.ranges["count_over_time"] = scraped(31.0)
        told = await looked(fake, **how)
    return {one.workload: one for one in told.subjects}


async def test_a_pod_belongs_to_the_owner_of_its_owner() -> None:
    pods = [f"chat{SET}-aaaaa", f"chat{SET}-bbbbb", "llama-0"]
    owners = [
        *(pod_owner(pod, "ReplicaSet", f"chat{SET}") for pod in pods[:2]),
        set_owner(f"chat{SET}", "chat"),
        pod_owner("llama-0", "StatefulSet", "llama"),
    ]
    told = await found([engine(pod) for pod in pods], owners)
    assert told["team/chat"].matchers == r'namespace="team",pod=~"chat-[a-z0-9]{1,10}-[a-z0-9]{5}"'
    assert told["team/llama"].matchers == 'namespace="team",pod=~"llama-[0-9]+"'
    assert told["team/chat"].facts == {"kind": "Deployment"}


async def test_labels_that_collided_with_the_scrapes_own_are_read_under_their_other_name() -> None:
    pod = f"chat{SET}-aaaaa"
    own = {"namespace": "monitoring", "exported_namespace": "team", "exported_pod": pod}
    owners = [{**pod_owner("ksm-0", "StatefulSet", "serving"), **own}]
    assert list(await found([engine(pod)], owners)) == ["team/serving"]


async def test_pods_that_look_like_anothers_are_listed_one_by_one() -> None:
    mine, other = f"chat{SET}-aaaaa", "chat-abc-12345"
    owners = [pod_owner(mine, "ReplicaSet", f"chat{SET}"), pod_owner(other, "StatefulSet", "chat-abc")]
    told = await found([engine(mine), engine(other)], owners)
    assert told["team/chat"].matchers == f'namespace="team",pod=~"{mine}"'
    assert told["team/chat-abc"].matchers == 'namespace="team",pod=~"chat-abc-[0-9]+"'


WITHOUT_OWNERS = {
    "the first label that is there": ({"app": "a", "model_name": "m"}, {}, "team/a", 'app="a"'),
    "the label that was named": ({"app": "a", "team": "t"}, {"owner_labels": ("team",)}, "team/t", 'team="t"'),
    "the name of its pod": ({}, {}, "team/chat", r'pod=~"chat-[a-z0-9]{1,10}-[a-z0-9]{5}"'),
}


@pytest.mark.parametrize(("labels", "how", "name", "matchers"), WITHOUT_OWNERS.values(), ids=WITHOUT_OWNERS.keys())
async def test_without_kube_state_metrics_a_workload_is(labels, how, name: str, matchers: str) -> None:
    told = await found([engine(f"chat{SET}-aaaaa", **labels)], **how)
    assert told[name].matchers == f'namespace="team",{matchers}'


async def test_targets_without_pods_are_told_apart_by_their_instances() -> None:
    series = {"__name__": "vllm:num_requests_running", "job": "engines", "instance": "10.0.0.1:8000"}
    told = await found([series])
    assert told["-/engines"].matchers == 'namespace="",job="engines"'
    assert told["-/engines"].replica_label == "instance"


async def test_the_engine_of_most_of_its_series_is_read_and_the_other_named() -> None:
    pod = "chat-0"
    series = [engine(pod), engine(pod, "vllm:num_requests_waiting"), engine(pod, "sglang:num_running_reqs")]
    async with past() as fake:
        fake.series["num_requests_running"] = series
        fake.ranges["count_over_time"] = scraped(31.0)
        told = await looked(fake)
    assert told.subjects[0].profile == VLLM
    assert told.notes == ("team/chat: its pods expose metrics of sglang, vllm; those of vllm are read",)
    assert SGLANG.name in told.notes[0]


@pytest.mark.parametrize(
    ("samples", "scrape_s"), [(30, 30), (31, 30), (61, 15), (60, 15), (181, 5), (15, 60), (16, 57)]
)
async def test_how_often_pods_are_scraped_is_seen(samples: int, scrape_s: int) -> None:
    async with past() as fake:
        fake.series["num_requests_running"] = [engine("chat-0")]
        fake.ranges["count_over_time"] = scraped(float(samples))
        told = await looked(fake)
    assert (told.subjects[0].scrape_s, told.notes) == (scrape_s, ())


async def test_what_is_not_known_of_scrapes_is_assumed_and_said() -> None:
    async with past() as fake:
        fake.series["num_requests_running"] = [engine("chat-0")]
        fake.ranges["count_over_time"] = scraped(31.0, job="another")
        told = await looked(fake)
    assert told.subjects[0].scrape_s == 30
    assert told.notes == ("how often is not known, 30 s are assumed, for what is scraped by: pods",)


async def test_gpus_and_cold_starts_are_its_pods() -> None:
    async with past() as fake:
        fake.series["num_requests_running"] = [engine("chat-0"), engine("chat-1")]
        pods = [({"namespace": "team", "pod": f"chat-{n}"}, n) for n in range(2)]
        other = ({"namespace": "team", "pod": "web-0"}, 7)

        def gpus(t_s: np.ndarray) -> Rows:
            return [(pod, np.full(t_s.size, 8.0)) for pod, _ in pods]

        def starts(t_s: np.ndarray) -> Rows:
            return [(pod, np.full(t_s.size, 60.0 * (1 + n))) for pod, n in (*pods, other)]

        fake.ranges |= {"count_over_time": scraped(31.0), "resource_requests": gpus, "ready_time": starts}
        (told,) = (await looked(fake)).subjects
    assert (told.gpus_per_replica, told.starts_s) == (8.0, (60.0, 120.0))


async def test_a_picker_stands_before_the_workload_that_its_pool_is_named_after() -> None:
    async with past() as fake:
        queue = {"__name__": "llm_d_epp_flow_control_queue_size", "namespace": "team", "pod": "epp-1"}
        fake.series = {
            "num_requests_running": [engine("chat-0"), engine("llama-0")],
            "flow_control_queue_size": [{**queue, "inference_pool": "chat"}, {**queue, "inference_pool": "nobody"}],
        }
        fake.ranges["count_over_time"] = scraped(31.0)
        chat, llama = (await looked(fake)).subjects
    assert chat.gateway == 'namespace="team",pod=~"epp-1",inference_pool=~"chat|"'
    assert llama.gateway is None


async def test_a_selector_is_all_that_is_looked_for() -> None:
    wanted = Wanted("team/mine", parse_matchers('app=~"x.*"'))
    async with past() as fake:
        fake.series['namespace="team",app=~"x.*"'] = [engine("chat-0")]
        fake.ranges["count_over_time"] = scraped(31.0)
        (told,) = (await looked(fake, wanted=[wanted])).subjects
        asked = [form for form in fake.asked if form["path"].endswith("/series")]
    assert (told.workload, told.matchers) == ("team/mine", 'namespace="team",app=~"x.*"')
    assert not any("kube_pod_owner" in form["match[]"] for form in asked)


async def test_an_engine_of_ones_own_is_found_by_its_names() -> None:
    own = custom("own", {"running": "my_running"})
    async with past() as fake:
        fake.series["my_running"] = [engine("chat-0", "my_running")]
        fake.ranges["count_over_time"] = scraped(31.0)
        (told,) = (await looked(fake, profiles={"own": own}, durations={})).subjects
    assert told.profile == own


async def test_far_too_many_series_are_counted_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_SERIES", 10)
    with pytest.raises(PortError, match=r"11 series of engines.*more than 10.*--namespace or --workload"):
        await found([engine(f"chat-{n}") for n in range(11)])


async def test_nothing_at_all_says_what_was_looked_for() -> None:
    with pytest.raises(InputError, match=r"no series of a known engine \(.*vllm.*--metric"):
        await found([])


async def test_one_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(InputError, match=r"team/chatt: .* found: team/chat\. .*--selector"):
        await found([engine("chat-0")], wanted=[Wanted("team/chatt")])


@pytest.mark.parametrize("word", ["kube_pod_owner", "resource_requests", "ready_time"])
async def test_kube_state_metrics_that_does_not_answer_is_a_note_and_one_that_refuses_ends_it(word: str) -> None:
    def broken(status: int) -> Fault:
        def strike(form: Form) -> web.Response | None:
            return error(status, "no") if word in form.get("match[]", "") + form.get("query", "") else None

        return strike

    async with past() as fake:
        fake.series["num_requests_running"] = [engine(f"chat{SET}-aaaaa")]
        fake.ranges["count_over_time"] = scraped(31.0)
        fake.fault = broken(500)
        told = await looked(fake)
        assert [one.workload for one in told.subjects] == ["team/chat"]
        (note,) = told.notes
        assert "kube-state-metrics" in note
        fake.fault = broken(403)
        with pytest.raises(PortError) as raised:
            await looked(fake)
    assert raised.value.fault is PortFault.DENIED


async def test_a_server_that_is_busy_at_first_is_asked_again_and_a_wrong_address_is_not() -> None:
    busy = iter(range(2))
    async with past() as fake:
        fake.series["num_requests_running"] = [engine("chat-0")]
        fake.ranges["count_over_time"] = scraped(31.0)
        fake.fault = lambda _form: None if next(busy, None) is None else error(503, "starting up")
        assert len((await looked(fake)).subjects) == 1
    asks = persistence()
    async with remembering(Endpoint(fake.url)) as history:
        with pytest.raises(PortError, match="refused"):
            await discover(history, asks, Search(Endpoint(fake.url)), WINDOW)
    assert asks.asked == 1
