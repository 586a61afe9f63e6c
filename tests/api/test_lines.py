"""Lines of readings: what is read, and that a fault is named by its field and value."""

import json

import pytest

from autoscaler.api.lines import read_again, read_head, read_line, workload_of
from autoscaler.core.types import (
    GatewayReading,
    LatencyReading,
    Limits,
    PodReading,
    Readings,
    ReplicaReading,
    StartingReplica,
    validate,
)
from autoscaler.errors import InputError

START = '"now_s": 10, "workload": "ns/chat"'


def test_every_field_of_a_line_arrives() -> None:
    text = json.dumps(
        {
            "now_s": 10.5,
            "workload": "ns/chat",
            "policy": {"max_replicas": 3},
            "replicas": {"desired": 3, "ready": 2, "starting": [{"since_s": 4, "name": "c", "unschedulable": True}]},
            "pods": [
                {
                    "name": "a", "ready_since_s": -5, "waiting": 1, "waiting_deferred": 2, "running": 3,
                    "requests_total": 4, "prompt_tokens_total": 5, "generation_tokens_total": 6, "kv_cache_usage": 0.7,
                }
            ],
            "gateway": {"queued": 8, "requests_total": 9},
            "latency": {"queue_s_p90": 0.1, "ttft_s_p90": 0.2, "tpot_s_p90": 0.3},
            "limits": {"quota_replicas": 11, "budget_replicas": 12},
            "remark": "a caller's own key",
        }
    )  # fmt: skip
    line = read_line(text.encode())
    assert read_line(text.replace("remark", "version").encode()) == line, "decoded at once, and part by part"
    assert (line.now_s, line.workload, line.policy_json) == (10.5, "ns/chat", b'{"max_replicas": 3}')
    assert (line.replicas.desired, line.replicas.ready) == (3, 2)
    assert line.replicas.starting == (StartingReplica(4.0, "c", unschedulable=True),)
    assert line.pods == (PodReading("a", -5, 1, 2, 3, 4, 5, 6, 0.7),)
    assert line.gateway == GatewayReading(8, 9)
    assert line.latency == LatencyReading(0.1, 0.2, 0.3)
    assert line.limits == Limits(11, 12)


@pytest.mark.parametrize(
    "rest",
    [
        "",
        '"replicas": {"desired": 3, "ready": 2, "starting": [{"since_s": 4, "name": "c", "unschedulable": true}]}',
        '"replicas": {"desired": 3.0, "ready": 2.0, "starting": [{"since_s": 4}]}',
        '"replicas": {"desired": 3, "starting": [{"since_s": 4, "unschedulable": null}]}',
        '"replicas": {"starting": [{"since_s": 10.0005}]}',
        '"pods": [{"name": "a", "waiting": 1, "running": null, "kv_cache_usage": 0.5}, {"name": "b"}]',
        '"pods": [], "gateway": {"queued": 8}, "latency": {"ttft_s_p90": 0.2}, "policy": {"max_replicas": 3}',
        '"limits": {"quota_replicas": 11, "budget_replicas": 12.0, "budget_words": "shared"}',
        '"limits": {"quota_replicas": null}, "kind": "inputs", "version": 1, "remark": [1]',
    ],
    ids=[
        "nothing", "whole", "counts as floats", "null for no", "a start that is younger", "pods", "other parts",
        "limits", "no limits and other keys",
    ],
)  # fmt: skip
def test_a_line_that_was_read_before_is_read_as_it_was(rest: str) -> None:
    text = f"{{{START}{', ' if rest else ''}{rest}}}".encode()
    again = read_again(text)
    assert repr(again) == repr(read_line(text)), "types too"
    told = again.replicas.desired is not None and again.replicas.ready is not None
    assert read_head(text) == (again.now_s, again.workload, again.policy_json, told)


@pytest.mark.parametrize("now", ["10", "10.0", "-3", "1700000000", "1700000000.25"])
def test_the_sample_time_keeps_the_type_it_was_written_in(now: str) -> None:
    line = read_line(f'{{"now_s": {now}, "workload": "w"}}'.encode())
    assert repr(line.now_s) == now


@pytest.mark.parametrize("part", ["policy", "replicas", "pods", "gateway", "latency", "limits"])
def test_null_and_missing_are_the_same(part: str) -> None:
    silent = read_line(f"{{{START}}}".encode())
    assert read_line(f'{{{START}, "{part}": null}}'.encode()) == silent


BAD: list[tuple[str, str]] = [
    ("", "the line is empty"),
    ("   \r", "the line is empty"),
    ("time,queue,ready", "not JSON: "),
    ("TIMESTAMP", "not JSON: "),
    ('{"now_s": 10, "workload": "w"', "not JSON: "),
    ('{"now_s": 10, "workload": "w"} {}', "not JSON: "),
    ("[1, 2]", "not a JSON object: "),
    ("{}", "now_s: missing"),
    ('{"now_s": 10}', "workload: missing"),
    ('{"now_s": null, "workload": "w"}', "now_s: null is of another type"),
    ('{"now_s": "10", "workload": "w"}', "now_s: '10' is of another type"),
    ('{"now_s": true, "workload": "w"}', "now_s: true is of another type"),
    ('{"now_s": NaN, "workload": "w"}', "now_s: nan is no finite number"),
    ('{"now_s": 1e999, "workload": "w"}', "now_s: inf is out of range"),
    ('{"now_s": 1700000000000, "workload": "w"}', "now_s: 1700000000000 is out of range; it must be at most 1"),
    ('{"now_s": 10, "workload": ""}', "workload: '' is out of range; it must be at least 1 characters long"),
    ('{"now_s": 10, "workload": 7}', "workload: 7 is of another type; it must be a text"),
    (f'{{{START}, "gatway": {{}}}}', "gatway: unknown field; did you mean gateway?"),
    (f'{{{START}, "Pods": []}}', "Pods: unknown field; did you mean pods?"),
    (f'{{{START}, "pods": {{}}}}', "pods: an object is of another type; it must be a list or null"),
    (f'{{{START}, "pods": [null]}}', "pods[0]: null is of another type; it must be an object"),
    (f'{{{START}, "pods": [{{}}]}}', "pods[0].name: missing"),
    (f'{{{START}, "pods": [{{"name": "a"}}, {{"name": "a"}}]}}', "pods[1].name: 'a' is also the name of pods[0]"),
    (f'{{{START}, "pods": [{{"name": "a", "wait": 1}}]}}', "pods[0].wait: unknown field"),
    (f'{{{START}, "pods": [{{"name": "a", "waiting": "1"}}]}}', "pods[0].waiting: '1' is of another type"),
    (f'{{{START}, "pods": [{{"name": "a", "waiting": true}}]}}', "pods[0].waiting: true is of another type"),
    (f'{{{START}, "pods": [{{"name": "a", "waiting": NaN}}]}}', "pods[0].waiting: nan is no finite number"),
    (f'{{{START}, "pods": [{{"name": "a", "waiting": -Infinity}}]}}', "pods[0].waiting: -inf is no finite number"),
    (
        f'{{{START}, "pods": [{{"name": "a", "running": -1}}]}}',
        "pods[0].running: -1 is out of range; it must",
    ),
    (f'{{{START}, "pods": [{{"name": "a", "waiting": 1e10}}]}}', "pods[0].waiting: 10000000000.0 is out of range"),
    (
        f'{{{START}, "pods": [{{"name": "a", "kv_cache_usage": 63}}]}}',
        "pods[0].kv_cache_usage: 63 is out of range",
    ),
    (f'{{{START}, "replicas": 3}}', "replicas: 3 is of another type; it must be an object or null"),
    (f'{{{START}, "replicas": {{"desired": -1}}}}', "replicas.desired: -1 is out of range; it must be at least 0"),
    (f'{{{START}, "replicas": {{"desired": 2.5}}}}', "replicas.desired: 2.5 is no whole number"),
    (f'{{{START}, "replicas": {{"ready": 1e7}}}}', "replicas.ready: 10000000.0 is out of range"),
    (f'{{{START}, "replicas": {{"ready": {"9" * 5000}}}}}', "replicas.ready: the value is out of range"),
    (f'{{{START}, "replicas": {{"starting": [{{"name": "c"}}]}}}}', "replicas.starting[0].since_s: missing"),
    (
        f'{{{START}, "replicas": {{"starting": [{{"since_s": 11}}]}}}}',
        "replicas.starting[0].since_s: 11 is after",
    ),
    (f'{{{START}, "replicas": {{"starting": [{{}}], "starting": null}}}}', "replicas.starting[0].since_s: missing"),
    (f'{{{START}, "replicas": {{"ready": "x", "ready": {{}}}}}}', "replicas.ready: an object is of another type"),
    (f'{{{START}, "gateway": {{"queued": -2}}}}', "gateway.queued: -2 is out of range"),
    (f'{{{START}, "gateway": {{"requests_total": 1e16}}}}', "gateway.requests_total: 1e+16 is out of range"),
    (f'{{{START}, "latency": {{"ttft_s_p90": -0.5}}}}', "latency.ttft_s_p90: -0.5 is out of range"),
    (f'{{{START}, "limits": {{"quota_replicas": 1.5}}}}', "limits.quota_replicas: 1.5 is no whole number"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[f"{i}: {message[:40]}" for i, (_, message) in enumerate(BAD)])
def test_a_fault_is_named_by_its_field_and_value(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_line(text.encode())
    assert str(caught.value).startswith(message)
    with pytest.raises(InputError) as head:
        read_head(text.encode())
    assert str(head.value) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff\xfe{}", "not JSON"),
        (b'{"now_s": 1, "workload": "\xff"}', "workload: 'utf-8' codec"),
        (b'{"now_s": 1, "workload": "w", "gateway": {"\xff": 1}}', "gateway: 'utf-8' codec"),
        (b"\x1f\x8b\x08\x00", "not JSON"),
    ],
)
def test_what_is_no_text_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_line(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "workload"),
    [
        (b'{"now_s": -1, "workload": "ns/a"}', "ns/a"),
        (b'{"now_s": NaN, "workload": "ns/a"}', "ns/a"),
        (b'{"now_s": 1, "workload": 5}', None),
        (b"nonsense", None),
    ],
)
def test_a_faulty_line_still_tells_its_workload_where_it_can(text: bytes, workload: str | None) -> None:
    assert workload_of(text) == workload


def test_a_sum_of_floats_may_put_an_order_a_hair_after_the_sample() -> None:
    line = read_line(b'{"now_s": 0.3, "workload": "w", "replicas": {"starting": [{"since_s": 0.30000000000000004}]}}')
    assert line.replicas.starting == (StartingReplica(0.30000000000000004),)


@pytest.mark.parametrize("value", ["0", "-0.0", "1e-300", "1", "0.5"])
def test_what_passes_also_passes_the_cores_own_check(value: str) -> None:
    line = read_line(
        f'{{{START}, "pods": [{{"name": "a", "waiting": {value}, "kv_cache_usage": {value}}}], '
        f'"gateway": {{"queued": {value}}}}}'.encode()
    )
    validate(Readings(float(line.now_s), ReplicaReading(1, 1), line.pods, line.gateway, line.latency, line.limits))
