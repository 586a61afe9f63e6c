"""Kueue's real controller manager beside ours: each lets in its own Jobs, and we write to none of Kueue's.

API server, Job controller, scheduler and Kueue with its webhooks are the real ones, each under its own rights; nodes
are KWOK's. Four nodes of eight GPUs each.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from autoscaler.adapters.kube.meta import AGENT
from autoscaler.cli.main import app
from tests.cluster import kueue
from tests.cluster.batch_work import SETTINGS, SLACK_S, Desk
from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.gangs import admitting_plane
from tests.cluster.kueue import Kueue, Lane
from tests.cluster.plane import Plane, audit_entries
from tests.cluster.processes import wait_for
from tests.cluster.rights_used import judged

pytestmark = [pytest.mark.real, pytest.mark.needs("kueue"), pytest.mark.timeout(360)]

READS: Final = frozenset({"get", "list", "watch"})
LEFT: Final = "left alone: Kueue manages it"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with admitting_plane(tmp_path_factory.mktemp("kueue"), "batch") as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def _rights(request: pytest.FixtureRequest, plane: Plane) -> Iterator[None]:
    yield from judged(request, plane, "batch")


@pytest.fixture(scope="module")
def controller(plane: Plane) -> Iterator[Controller]:
    with Controller(plane, **SETTINGS) as made:
        made.wait_leading(SLACK_S)
        yield made


@pytest.fixture(scope="module")
def other(plane: Plane, controller: Controller) -> Iterator[Kueue]:
    """Kueue, which comes to a cluster where we lead already."""
    with Kueue(plane) as made:
        yield made


@pytest.fixture
def desk(plane: Plane, controller: Controller, other: Kueue) -> Iterator[Desk]:
    with Desk.open(plane, controller) as made:
        yield made


@pytest.fixture(scope="module")
def takes_all(other: Kueue) -> None:
    """From now on Kueue manages Jobs that name no queue of it."""
    other.restart(all_jobs=True)


def test_what_kueue_lets_in_is_foreign_and_our_own_are_let_in_on_what_is_left(
    desk: Desk, controller: Controller
) -> None:
    lane, queue = Lane(desk, 16), desk.queue("team", 32)
    lane.job("theirs", pods=2)
    desk.wait_bound("theirs", 2)
    assert "JobResumed" in reasons(desk, "theirs"), "Kueue had suspended it first"
    desk.job("three", queue, pods=3)
    words = desk.wait_told("three", "Waiting")
    assert "24 units of h100, 8 more than they have, in this form beside serving and others" in words
    desk.job("two", queue, pods=2)
    desk.wait_bound("two", 2)
    wait_for(lambda: owners(controller).get("batch") == 16, SLACK_S, "ours to be counted")
    assert owners(controller) == {"foreign": 16, "batch": 16, "free": 0}
    assert shown(controller, desk, "theirs") == ("foreign", "16 nvidia.com/gpu in 2 pods", LEFT)
    (row,) = [
        line for line in CliRunner().invoke(app, ["queue", "--server", controller.url]).stdout.splitlines()
        if f"job/{desk.namespace}/theirs" in line
    ]  # fmt: skip
    assert "16 nvidia.com/gpu in 2 pods" in row
    assert LEFT in row
    assert ours(desk) == {"jobs/two": 1}
    assert list(lane.workloads()) == ["theirs"], "Kueue keeps off ours"
    assert list(on_jobs(theirs(desk))) == ["jobs/theirs"]
    assert AGENT in writers(desk.read("two"))
    for one in (desk.read("theirs"), lane.workloads()["theirs"], *desk.pods("theirs")):
        assert AGENT not in writers(one)


def test_one_over_kueues_quota_stays_suspended_though_gpus_are_free_and_is_seen_to_wait(
    desk: Desk, controller: Controller
) -> None:
    lane, queue = Lane(desk, 16), desk.queue("team", 32)
    lane.job("large", pods=3)
    desk.job("both", queue, pods=1, labels=lane.labels)
    assert "Kueue manages it" in desk.wait_told("both", "LeftAlone")
    wait_for(lambda: lane.condition("large", "QuotaReserved") == "False", SLACK_S, "Kueue to find no quota for it")
    desk.wait_bound("both", 1)
    desk.job("ours", queue, pods=3)
    desk.wait_bound("ours", 3)
    desk.end("ours")
    wait_for(lambda: owners(controller) == {"foreign": 8, "batch": 0, "free": 24}, SLACK_S, "24 GPUs to be free")
    assert shown(controller, desk, "large") == ("foreign", "24 nvidia.com/gpu in 3 pods", LEFT)
    assert desk.is_suspended("large")
    assert ours(desk) == {"jobs/ours": 1}
    assert set(lane.workloads()) == {"large", "both"}


def test_a_job_that_kueue_takes_into_its_default_queue_is_kueues(desk: Desk) -> None:
    """Of its own accord Kueue enters a LocalQueue of the name `default` into each Job of the namespace."""
    lane, queue = Lane(desk, 16, name="default"), desk.queue("team", 32)
    desk.job("entered", queue, pods=2)
    assert desk.read("entered")["metadata"]["labels"][kueue.QUEUE] == "default"
    assert "Kueue manages it" in desk.wait_told("entered", "LeftAlone")
    desk.wait_bound("entered", 2)
    assert list(lane.workloads()) == ["entered"]
    assert ours(desk) == {}


def test_neither_an_eviction_of_kueues_nor_a_restart_of_ours_has_us_write_to_its_jobs(
    desk: Desk, controller: Controller
) -> None:
    lane, queue = Lane(desk, 16), desk.queue("team", 16, limit=16)
    lane.job("low", pods=2)
    desk.wait_bound("low", 2)
    desk.job("ours", queue, pods=2)
    desk.wait_bound("ours", 2)
    lane.job("high", pods=2, importance="high")
    desk.wait_bound("high", 2)
    assert (desk.is_suspended("low"), lane.condition("low", "Preempted")) == (True, "True")
    controller.kill()
    desk.end("high")
    desk.wait_bound("low", 2)
    controller.start()
    controller.wait_leading(SLACK_S)
    desk.end("ours")
    desk.job("next", queue, pods=2)
    desk.wait_bound("next", 2)
    wait_for(lambda: owners(controller) == {"foreign": 16, "batch": 16, "free": 0}, SLACK_S, "both to be counted")
    assert ours(desk) == {"jobs/ours": 1, "jobs/next": 1}
    assert theirs(desk)["jobs/low"] >= 3, "let in, evicted and let in again"


def test_while_kueue_is_down_its_webhooks_refuse_our_patch_and_once_it_is_back_all_goes_on(
    desk: Desk, controller: Controller, other: Kueue
) -> None:
    """Its older Workloads cannot be listed either, which is what a restart of ours begins with."""
    lane, queue = Lane(desk, 8), desk.queue("team", 8, limit=8)
    lane.job("theirs", pods=1)
    desk.wait_bound("theirs", 1)
    desk.job("waits", queue, pods=2)
    assert "8 more units within the limit" in desk.wait_told("waits", "Waiting")
    other.stop()
    try:
        controller.stop()
        controller.start()
        controller.wait_leading(SLACK_S)
        desk.queue("team", 16, limit=16)
        assert "failed calling webhook" in desk.wait_told("waits", "StartFailed")
        assert desk.is_suspended("waits")
    finally:
        other.start()
    desk.wait_bound("waits", 2)
    assert ours(desk) == {"jobs/waits": 1}


@pytest.mark.usefixtures("takes_all")
@pytest.mark.parametrize("served", [("v1beta1", "v1beta2"), ("v1beta2",)], ids=["both versions", "the newer one alone"])
def test_jobs_that_kueue_takes_without_its_label_are_left_to_it_and_nobody_fights(
    desk: Desk, controller: Controller, other: Kueue, served: tuple[str, ...]
) -> None:
    lane, queue, names = Lane(desk, 16), desk.queue("team", 32), [f"taken-{at}" for at in range(8)]
    with other.serving(*served):
        for name in names:
            desk.job(name, queue, gpus=4)
        for name in names:
            assert "Kueue manages it" in desk.wait_told(name, "LeftAlone")
        wait_for(lambda: all(desk.is_suspended(name) for name in names), SLACK_S, "Kueue to hold all of them")
        wait_for(lambda: set(lane.workloads()) == set(names), SLACK_S, "a Workload for each")
        before = ours(desk), on_jobs(theirs(desk))
        assert max(before[0].values(), default=0) <= 1, "whoever was started before Kueue had taken it was so once"
        controller.stop()
        controller.start()
        controller.wait_leading(SLACK_S)
        lane.job("let-in", pods=2)
        desk.wait_bound("let-in", 2)
        wait_for(lambda: owners(controller) == {"foreign": 16, "batch": 0, "free": 16}, SLACK_S, "ours to be none")
        after = ours(desk), {name: count for name, count in on_jobs(theirs(desk)).items() if "let-in" not in name}
        assert after == before
        print(f"\nwrites to 8 Jobs: ours {sum(before[0].values())}, Kueue's {sum(before[1].values())}")


def owners(controller: Controller) -> dict[str, int]:
    """Who holds how many of the 32 GPUs, by our page; empty where it has nothing to show, as just after a start."""
    try:
        (told,) = controller.get("/api/batch")["owners"]
    except OSError:
        return {}
    return {name: told[name] for name in ("foreign", "batch", "free")}


def shown(controller: Controller, desk: Desk, name: str) -> tuple[str, str, str]:
    """State, demand and sentence of a Job by our page."""
    (line,) = [one for one in controller.get("/api/batch")["gangs"] if one["gang"] == f"job/{desk.namespace}/{name}"]
    return line["state"], line["asks"], line["text"]


def reasons(desk: Desk, name: str) -> list[str]:
    """Reasons of the conditions of a Job."""
    return [each["reason"] for each in desk.read(name)["status"].get("conditions", ())]


def writers(found: dict[str, Any]) -> set[str]:
    """Who wrote fields of an object that stand in it now."""
    return {each["manager"] for each in found["metadata"]["managedFields"]}


def written(desk: Desk, user: str) -> dict[str, int]:
    """How often somebody wrote to each object of a namespace, Events aside, by the API server's audit log."""
    found = Counter[str]()
    for entry in audit_entries(desk.plane.audit):
        ref = entry.get("objectRef", {})
        if (
            entry["user"]["username"] == user and ref.get("namespace") == desk.namespace
            and entry["verb"] not in READS and ref["resource"] != "events" and "dryRun" not in entry["requestURI"]
            and entry["responseStatus"]["code"] < 300
        ):  # fmt: skip
            found["/".join(filter(None, (ref["resource"], ref.get("name"), ref.get("subresource"))))] += 1
    return dict(found)


def ours(desk: Desk) -> dict[str, int]:
    """What we wrote to."""
    return written(desk, ACCOUNT)


def on_jobs(writes: dict[str, int]) -> dict[str, int]:
    """Those to Jobs, statuses aside."""
    return {name: count for name, count in writes.items() if name.startswith("jobs/") and name.count("/") == 1}


def theirs(desk: Desk) -> dict[str, int]:
    """What Kueue wrote to."""
    return written(desk, kueue.ACCOUNT)
