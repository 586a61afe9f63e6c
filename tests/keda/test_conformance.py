"""Every call of the external scaler in every case that KEDA can bring about: what it is told, call by call.

Edge case 1 (kedacore/keda#7880 and #7475: NaN, infinity and negatives become 0) has the rows with figures that mean
nothing, edge case 33 (kedacore/keda#7441: thousandths beyond 64 bits) the row with the largest count there can be.
"""

from collections.abc import Awaitable, Callable

import grpc
import pytest

from autoscaler.adapters.keda.answers import Refused, Served
from autoscaler.adapters.keda.externalscaler_pb2_grpc import ExternalScalerStub
from tests.keda.book import CHAT, MISSPELLED, NOT_LEADING, SYNCING, UNKNOWN, Book, calling, query, ref, serving

DEMAND = {"value": "demand", "perReplica": "8"}
MOST = {"value": "demand", "perReplica": "1000000000"}
GARBAGE = {"value": "\x00💥", "scalerAddress": "x" * 5000}
HUGE = {"sloTtftS": "2" * 10_000_000}
UNLIMITED = (("grpc.max_send_message_length", -1),)
ANSWERED_S, SILENT_S = 30.0, 0.4
"""A caller's patience: longer than 10 MB take on a busy machine; where nothing is to come, no longer than needed."""


async def spec(client: ExternalScalerStub, metadata: dict[str, str], patience_s: float) -> object:
    (found,) = (await client.GetMetricSpec(ref(metadata), timeout=patience_s)).metricSpecs
    return (found.metricName, found.targetSizeFloat, found.targetSize)


async def metrics(client: ExternalScalerStub, metadata: dict[str, str], patience_s: float) -> object:
    name = f"headroom-{metadata.get('value', 'replicas')}"
    (found,) = (await client.GetMetrics(query(name, metadata), timeout=patience_s)).metricValues
    return (found.metricName, found.metricValueFloat, found.metricValue)


async def active(client: ExternalScalerStub, metadata: dict[str, str], patience_s: float) -> object:
    return (await client.IsActive(ref(metadata), timeout=patience_s)).result


async def pushed(client: ExternalScalerStub, metadata: dict[str, str], patience_s: float) -> object:
    return (await anext(aiter(client.StreamIsActive(ref(metadata), timeout=patience_s)))).result


async def pushed_spec(client: ExternalScalerStub, metadata: dict[str, str], patience_s: float) -> object:
    (found,) = (await anext(aiter(client.StreamMetricSpec(ref(metadata), timeout=patience_s)))).metricSpecs
    return (found.metricName, found.targetSizeFloat, found.targetSize)


CALLS = {
    "GetMetricSpec": spec,
    "GetMetrics": metrics,
    "IsActive": active,
    "StreamIsActive": pushed,
    "StreamMetricSpec": pushed_spec,
}

ONE = ("headroom-replicas", 1.0, 1)
EIGHT = ("headroom-demand", 8.0, 8)
BILLION = ("headroom-demand", 1e9, 10**9)
UNAVAILABLE, NOT_FOUND, INVALID = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
)
TOO_LONG = grpc.StatusCode.RESOURCE_EXHAUSTED
STAYS_OPEN = grpc.StatusCode.DEADLINE_EXCEEDED
"""The client's own patience: the stream says nothing and is not ended."""

CASES: dict[str, tuple[Served | Refused, dict[str, str], tuple[object, object, object, object, object]]] = {
    "five replicas": (Served(5, 3), {}, (ONE, ("headroom-replicas", 5.0, 5), True, True, ONE)),
    "five replicas, held while the metrics cannot be read": (
        Served(5, 5, age_s=42.0, held=True), {}, (ONE, ("headroom-replicas", 5.0, 5), True, True, ONE),
    ),
    "none": (Served(0, 0), {}, (ONE, ("headroom-replicas", 0.0, 0), False, False, ONE)),
    "five of eight for 37 requests": (
        Served(5, 3, 37), DEMAND, (EIGHT, ("headroom-demand", 37.0, 37), True, True, EIGHT),
    ),
    "five of eight though 90 requests are there": (
        Served(5, 3, 90), DEMAND, (EIGHT, ("headroom-demand", 40.0, 40), True, True, EIGHT),
    ),
    "five of eight though 3 requests are there": (
        Served(5, 3, 3), DEMAND, (EIGHT, ("headroom-demand", 33.0, 33), True, True, EIGHT),
    ),
    "five of eight while nobody knows the requests": (
        Served(5, 3, None), DEMAND, (EIGHT, ("headroom-demand", 40.0, 40), True, True, EIGHT),
    ),
    "five of eight though a negative count of requests is told": (
        Served(5, 3, -(10**18)), DEMAND, (EIGHT, ("headroom-demand", 33.0, 33), True, True, EIGHT),
    ),
    "five of eight though more requests are told than numbers hold": (
        Served(5, 3, 10**400), DEMAND, (EIGHT, ("headroom-demand", 40.0, 40), True, True, EIGHT),
    ),
    "the most replicas at the most that one may carry": (
        Served(100_000, 3), MOST, (BILLION, ("headroom-demand", 1e14, 10**14), True, True, BILLION),
    ),
    "none though 3 requests are there": (
        Served(0, 0, 3), DEMAND, (EIGHT, ("headroom-demand", 0.0, 0), False, False, EIGHT),
    ),
    "before the first sync": (SYNCING, {}, (ONE, UNAVAILABLE, UNAVAILABLE, STAYS_OPEN, ONE)),
    "by a replica that does not lead": (NOT_LEADING, {}, (ONE, UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, ONE)),
    "for a ScaledObject that nobody knows yet": (UNKNOWN, {}, (ONE, NOT_FOUND, NOT_FOUND, STAYS_OPEN, ONE)),
    "for a policy that cannot be read": (MISSPELLED, {}, (ONE, INVALID, INVALID, INVALID, ONE)),
    "for a measure that cannot be read": (
        Served(5, 3), {"value": "demand"}, (ONE, INVALID, True, True, ONE),
    ),
    "for a mistyped perReplica": (
        Served(5, 3), {"value": "demand", "perReplica": "8x"}, (ONE, INVALID, True, True, ONE),
    ),
    "for a mistyped value": (Served(5, 3), {"value": "demnad"}, (ONE, INVALID, True, True, ONE)),
    "for garbage in the metadata": (Served(5, 3), GARBAGE, (ONE, INVALID, True, True, ONE)),
    "for 10 MB of metadata": (Served(5, 3), HUGE, (TOO_LONG,) * 5),
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "answer", "metadata", "expected"),
    [
        pytest.param(call, answer, metadata, told, id=f"{name}: {case}")
        for case, (answer, metadata, all_told) in CASES.items()
        for (name, call), told in zip(CALLS.items(), all_told, strict=True)
    ],
)
async def test_conformance(
    call: Callable[[ExternalScalerStub, dict[str, str], float], Awaitable[object]],
    answer: Served | Refused,
    metadata: dict[str, str],
    expected: object,
) -> None:
    book = Book({CHAT: answer})
    async with serving(book) as port, calling(port, UNLIMITED) as client:
        if not isinstance(expected, grpc.StatusCode):
            assert await call(client, metadata, ANSWERED_S) == expected
            return
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(client, metadata, SILENT_S if expected is STAYS_OPEN else ANSWERED_S)
    assert refused.value.code() is expected
    if isinstance(answer, Refused) and expected is not STAYS_OPEN:
        assert refused.value.details() == answer.message


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"value": "demnad", "perReplica": "8"}, "metadata.value: 'demnad' is out of range"),
        ({"value": "demand", "perReplica": "8x"}, "metadata.perReplica: '8x' is out of range"),
        ({"perReplica": "8"}, "metadata.perReplica: given without value: demand"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
async def test_the_spec_of_a_mistyped_measure_keeps_our_metric_in_the_hpa_and_its_value_is_refused_in_words(
    metadata: dict[str, str], words: str
) -> None:
    async with serving(Book({CHAT: Served(5, 3)})) as port, calling(port) as client:
        (given,) = (await client.GetMetricSpec(ref(metadata))).metricSpecs
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.GetMetrics(query(f"s0-{given.metricName}", metadata))
    assert refused.value.code() is INVALID
    assert (refused.value.details() or "").startswith(words)
