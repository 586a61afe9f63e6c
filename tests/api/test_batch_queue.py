"""A BatchQueue is read whole or refused with field, value and remedy."""

import json
from typing import Any

import pytest

from autoscaler.api.batch_queue import BatchQueueSpec, read_batch_queue
from autoscaler.core.batch.params import Order
from autoscaler.errors import InputError
from tests.api.queues import FAULTY, SOUND, spec


def read(fields: dict[str, Any]) -> BatchQueueSpec:
    return read_batch_queue(json.dumps(fields).encode())


@pytest.mark.parametrize("fields", SOUND.values(), ids=SOUND)
def test_a_sound_queue_is_read(fields: dict[str, Any]) -> None:
    assert read(fields).weight == fields.get("weight", 1)


@pytest.mark.parametrize(("fields", "words"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_queue_is_refused_with_field_and_remedy(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        read(fields)
    assert words in str(refused.value)


def test_an_empty_spec_is_refused() -> None:
    with pytest.raises(InputError, match="spec: missing; a BatchQueue has one"):
        read_batch_queue(b"")


def test_what_is_left_out_bounds_nothing() -> None:
    queue = read(spec(quotas=[{"shape": "h100", "guaranteed": 4}]))
    (quota,) = queue.quotas
    assert (quota.limit, quota.lendable, quota.borrowable) == (None, None, None)
    assert (queue.order, queue.preemption.grace_s) == (Order.FAIR, 60)


def test_importance_is_that_of_the_priority_class() -> None:
    queue = read(SOUND["every field"])
    assert [queue.importance(name) for name in ("batch-urgent", "batch-low", "other", None)] == [4, 0.5, 1, 1]
