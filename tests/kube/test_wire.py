"""Bytes that are not what was asked for: each is told by name or as no list, and none of them ends the process."""

from typing import Final

import pytest

from autoscaler.adapters.kube.answers import KubeError, refusal
from autoscaler.adapters.kube.pods import Pod
from autoscaler.adapters.kube.wire import Resource, Unread, Wire
from autoscaler.ports import Fault

DEEP: Final = b"[" * 100_000 + b"]" * 100_000
"""The API server takes 10,000 in a custom resource whose schema leaves a part open, more than Python 3.11 does."""

GOOD: Final = b'{"metadata": {"name": "good", "namespace": "prod", "resourceVersion": "7"}}'
FOREIGN: Final = b'{"metadata": {"name": "bad", "namespace": "prod", "labels": {"a": "Ger\xe4t"}}}'

wire: Final = Wire(Resource("/api/v1/pods", Pod))


def test_an_object_whose_text_is_not_utf8_is_named_and_hides_no_other() -> None:
    page = wire.page(b'{"metadata": {"resourceVersion": "9"}, "items": [' + FOREIGN + b"," + GOOD + b"]}")
    assert [pod.metadata.key for pod in page.objects] == ["prod/good"]
    assert [unread.key for unread in page.unread] == ["prod/bad"]
    seen = wire.event(b'{"type": "ADDED", "object": ' + FOREIGN + b"}").seen
    assert isinstance(seen, Unread)
    assert seen.key == "prod/bad"


@pytest.mark.parametrize(
    "items", [b'[{"spec": ' + DEEP + b"}]", b'"Ger\xe4t"'], ids=["nested too deeply", "not UTF-8 at all"]
)
def test_what_cannot_be_taken_apart_is_no_list_and_no_event(items: bytes) -> None:
    with pytest.raises(KubeError, match="no list of objects") as raised:
        wire.page(b'{"metadata": {"resourceVersion": "9"}, "items": ' + items + b"}")
    assert raised.value.fault is Fault.INVALID
    with pytest.raises(KubeError, match="no event"):
        wire.event(b'{"type": ' + items + b"}")


def test_a_refusal_whose_words_are_not_utf8_is_a_refusal() -> None:
    refused = refusal("GET /api/v1/pods", 502, {}, b'{"message": "Ger\xe4t nicht erreichbar"}')
    assert (refused.fault, refused.status) == (Fault.UNAVAILABLE, 502)
