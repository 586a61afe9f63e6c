"""A poll of KEDA's that meets a pull of the HPA's while both are refused: KEDA's real operator takes it for no work.

HPA pulls every 2 s here, a test without a pause beside it, and KEDA polls every second or two. Its cooldown is 2 s,
where a test does not say otherwise.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from autoscaler.adapters.keda.answers import Refused
from tests.cluster.plane import RefusedError
from tests.keda.target import FALLBACK, SILENT, Target, settled

pytestmark = [pytest.mark.real, pytest.mark.needs("keda"), pytest.mark.timeout(240)]


@contextmanager
def pulled(chat: Target) -> Iterator[None]:
    """Pulls of the metric without a pause for the length of the block, so that KEDA's next poll meets one of them."""
    path, ended = chat.keda.path(chat.namespace, chat.name), threading.Event()

    def pull() -> None:
        while not ended.is_set():
            with suppress(RefusedError):
                chat.plane.call("GET", path)

    with ExitStack() as stack:
        for number in range(2):
            pulling = threading.Thread(target=pull, name=f"pull-{number}")
            pulling.start()
            stack.callback(pulling.join)
        stack.callback(ended.set)
        yield


TO_ZERO = [
    pytest.param({}, 8, id="which worked before"),
    pytest.param({"minReplicaCount": 4, "idleReplicaCount": 0}, 8, id="which may be idle"),
    pytest.param({"cooldownPeriod": 300}, SILENT, id="which never worked, whatever its cooldown is"),
]


@pytest.mark.parametrize(("options", "first"), TO_ZERO)
def test_without_a_fallback_a_refusal_to_a_poll_and_a_pull_at_once_passes_for_no_work(
    chat: Target, options: dict[str, Any], first: int | Refused
) -> None:
    """What the page on KEDA warns of: the pull's failure closes the cache of scalers that the poll is reading, which
    says neither error nor work by that (kedacore/keda#7737, since 2.20)."""
    chat.make(8, first, pollingInterval=1, **options)
    if first is not SILENT:
        assert settled(chat.told, first) == first
        chat.say(SILENT)
    with pulled(chat):
        assert chat.comes_to(0, 90) == 0
    assert "Deactivated apps/v1.Deployment" in chat.events()
    chat.say(9)
    assert chat.comes_to(9) == 9


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"minReplicaCount": 1}, id="a minimum"),
        pytest.param({"fallback": FALLBACK | {"replicas": 8}}, id="a fallback"),
        pytest.param({"cooldownPeriod": 300}, id="a cooldown that is not over"),
        pytest.param({"annotations": {"autoscaling.keda.sh/paused-scale-in": "true"}}, id="a pause of scale-in"),
    ],
)
def test_what_keeps_a_refusal_from_passing_for_no_work(chat: Target, options: dict[str, Any]) -> None:
    chat.make(8, 8, **options)
    assert settled(chat.told, 8) == 8
    assert settled(lambda: chat.condition("Active"), "True") == "True"
    chat.say(SILENT)
    with pulled(chat):
        assert chat.counts_over(15) == {8}


def test_an_initial_cooldown_keeps_first_refusals_from_passing_for_no_work(chat: Target) -> None:
    chat.make(8, SILENT, initialCooldownPeriod=300)
    with pulled(chat):
        assert chat.counts_over(15) == {8}
