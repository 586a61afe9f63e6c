"""Which pods are told to go first: those with the least work, and nobody's wish but ours is touched."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.deletion_cost import COST, MOST, OURS, DeletionCost, chosen
from autoscaler.adapters.kube.meta import Condition, Meta
from autoscaler.adapters.kube.pods import Pod, PodStatus
from autoscaler.api.claims import TargetRef
from autoscaler.ports import Fault

NOON: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
REF: Final = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "chat", "t1")
WORK: Final = {"a": (0.9,), "b": (0.1,), "c": (0.5,), "d": (0.3,)}


def pod(name: str, cost: str | None = None, *, ready: bool = True, leaving: bool = False) -> Pod:
    annotations = {} if cost is None else {COST: cost}
    meta = Meta(name, "prod", f"u-{name}", deletion_timestamp=NOON if leaving else None, annotations=annotations)
    return Pod(meta, status=PodStatus(conditions=(Condition("Ready", str(ready), last_transition_time=NOON),)))


def four(**other: Pod) -> dict[str, Pod]:
    return {f"prod/{name}": other.get(name, pod(name)) for name in "abcd"}


CHOICES: dict[str, tuple[dict[str, Pod], Mapping[str, tuple[float, ...]], int, dict[str, str | None]]] = {
    "the two with the least work": (four(), WORK, 2, {"b": OURS, "d": OURS}),
    "one that is not ready goes by itself": (four(c=pod("c", ready=False)), WORK, 2, {"b": OURS}),
    "one that is leaving is not counted": (four(b=pod("b", leaving=True)), WORK, 1, {"d": OURS}),
    "one whose work is not known is not chosen": (four(), {"a": (0.9,), "c": (0.5,)}, 2, {"a": OURS, "c": OURS}),
    "nothing is known": (four(), {}, 2, {}),
    "what was said before is not said again": (four(b=pod("b", OURS)), WORK, 2, {"d": OURS}),
    "and taken back where it is wrong by now": (four(a=pod("a", OURS)), WORK, 1, {"b": OURS, "a": None}),
    "somebody else has wishes": (four(a=pod("a", "7")), WORK, 2, {}),
    "all of them go": (four(), WORK, 4, dict.fromkeys("abcd", OURS)),
}


@pytest.mark.parametrize(("pods", "work", "away", "written"), CHOICES.values(), ids=CHOICES.keys())
def test_choices(
    pods: dict[str, Pod], work: Mapping[str, tuple[float, ...]], away: int, written: dict[str, str | None]
) -> None:
    assert chosen(pods, work, away) == written


def test_no_more_are_written_before_one_shrink_than_stated_and_those_that_go_come_first() -> None:
    many = {f"prod/p{n:03}": pod(f"p{n:03}", OURS if n >= 100 else None) for n in range(200)}
    writes = chosen(many, {f"p{n:03}": (float(n),) for n in range(200)}, 80)
    assert len(writes) == MOST
    assert set(writes.values()) == {OURS}


class Server:
    """Takes patches; may be slow or refuse."""

    def __init__(self, *, slow: bool = False, status: int | None = None) -> None:
        self.written: list[str] = []
        self._slow, self._status = slow, status

    async def request(self, method: str, path: str, **given: Any) -> Answer:
        if self._slow:
            await asyncio.sleep(60.0)
        if self._status is not None:
            raise KubeError(Fault.DENIED, "403 Forbidden", status=self._status)
        self.written.append(path)
        return Answer(200, b"{}", {})


def cost(server: Server) -> DeletionCost:
    return DeletionCost(server, lambda _: WORK, lambda: True)


@pytest.mark.looptime(noop_cycles=1)
@pytest.mark.parametrize(
    "server", [Server(), Server(slow=True), Server(status=403)], ids=["taken", "no answer", "no right"]
)
async def test_a_shrink_is_held_up_for_a_second_at_most_whatever_becomes_of_the_wish(server: Server) -> None:
    begun_s = asyncio.get_running_loop().time()
    await cost(server).before(REF, four(), 2)
    assert asyncio.get_running_loop().time() - begun_s <= 1.0
    assert server.written in ([], ["/api/v1/namespaces/prod/pods/b", "/api/v1/namespaces/prod/pods/d"])


async def test_only_deployments_are_asked_for_it() -> None:
    server = Server()
    await cost(server).before(TargetRef("apps", "v1", "statefulsets", "StatefulSet", "prod", "chat", "t1"), four(), 2)
    assert server.written == []
