"""Any lines at all: one answer each, never a crash, and every number inside the policy."""

import itertools
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.lines import POLICY, encode, make_stream

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ODD: st.SearchStrategy[Any] = JSON | st.sampled_from(
    [float("nan"), float("inf"), -1, 1e400, 10**30, "3", True, -0.0, 1e9, 1e15, {}, []]
)
KEYS = [
    "now_s", "workload", "policy", "replicas", "pods", "gateway", "latency", "limits", "desired", "ready", "starting",
    "since_s", "name", "waiting", "running", "requests_total", "kv_cache_usage", "queued", "min_replicas", "slo",
]  # fmt: skip


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values | st.none()


def counts(most: float = 1e9) -> st.SearchStrategy[Any]:
    return st.floats(0, most, allow_nan=False) | st.integers(0, 50) | st.sampled_from([0, 1e-300, most])


@st.composite
def readings(draw: st.DrawFn, now_s: float) -> dict[str, Any]:
    """A sound line: anything may be missing, everything is within its range."""
    pod = st.fixed_dictionaries(
        {"name": st.sampled_from("abcdef")},
        optional={
            "ready_since_s": maybe(st.floats(-1e6, now_s)),
            "waiting": maybe(counts()),
            "waiting_deferred": maybe(counts()),
            "running": maybe(counts()),
            "requests_total": maybe(counts(1e15)),
            "prompt_tokens_total": maybe(counts(1e15)),
            "generation_tokens_total": maybe(counts(1e15)),
            "kv_cache_usage": maybe(st.floats(0, 1)),
        },
    )
    start = st.fixed_dictionaries(
        {"since_s": st.floats(now_s - 5000, now_s)},
        optional={"name": maybe(st.sampled_from("abcdef")), "unschedulable": maybe(st.booleans())},
    )
    replicas = st.fixed_dictionaries(
        {},
        optional={
            "desired": maybe(st.integers(2, 40)),
            "ready": maybe(st.integers(0, 40)),
            "starting": maybe(st.lists(start, max_size=4)),
        },
    )
    latency = {f"{name}_s_p90": maybe(counts(1e6)) for name in ("queue", "ttft", "tpot")}
    line: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "replicas": maybe(replicas),
                "pods": maybe(st.lists(pod, max_size=6, unique_by=lambda p: p["name"])),
                "gateway": maybe(
                    st.fixed_dictionaries(
                        {}, optional={"queued": maybe(counts()), "requests_total": maybe(counts(1e15))}
                    )
                ),
                "latency": maybe(st.fixed_dictionaries({}, optional=latency)),
            },
        )
    )
    return {"now_s": now_s, "workload": draw(st.sampled_from(["ns/a", "ns/b"])), **line}


@st.composite
def sound_streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    now_s = draw(st.sampled_from([0.0, -50.0, 1.7e9]))
    lines = []
    for _ in range(draw(st.integers(1, 14))):
        lines.append(draw(readings(now_s)) | {"policy": POLICY | {"min_replicas": 2, "max_replicas": 40}})
        now_s += draw(st.sampled_from([0.0, 0.1, 5.0, 10.0, 60.0, 240.0]))
    return lines


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sound_streams())
def test_sound_lines_are_decided_inside_the_policy(lines: list[dict[str, Any]]) -> None:
    stream = make_stream()
    for line in lines:
        answer = json.loads(stream.answer(encode(line)))
        assert "error" not in answer
        assert list(answer) == ["now_s", "workload", "replicas", "verdict", "reason", "text", "trace"]
        assert 2 <= answer["replicas"] <= 40
        steps = answer["trace"]
        assert steps[-1]["after"] == answer["replicas"]
        assert all(a["after"] == b["before"] for a, b in itertools.pairwise(steps))
        held = answer["replicas"] == steps[0]["before"]
        assert answer["verdict"] == ("HOLD" if held else "SCALE")


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A sound line with one value replaced, a key added, or bytes cut, changed or put in."""
    line = draw(readings(draw(st.floats(-1e3, 1e3)))) | ({"policy": POLICY} if draw(st.booleans()) else {})
    line = json.loads(json.dumps(line))  # what is spoilt is this line's own
    place: Any = line
    for _ in range(draw(st.integers(0, 3))):
        inner = [v for v in (place.values() if isinstance(place, dict) else place) if isinstance(v, dict | list) and v]
        place = draw(st.sampled_from(inner)) if inner else place
    if isinstance(place, dict):
        place[draw(st.sampled_from(KEYS))] = draw(ODD)
    else:
        place[0] = draw(ODD)
    text = bytearray(json.dumps(line).encode())
    for _ in range(draw(st.integers(0, 2))):
        text[draw(st.integers(0, 1000)) % len(text)] = draw(st.integers(0, 255))
    return bytes(text).replace(b"\n", b" ") + b"\n"


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(spoilt() | st.binary(max_size=40), min_size=1, max_size=6))
def test_any_bytes_get_exactly_one_answer(lines: list[bytes]) -> None:
    stream = make_stream()
    for number, line in enumerate(lines, 1):
        text = stream.answer(line)
        answer = json.loads(text)
        assert b"\n" not in text
        if "error" in answer:
            assert answer["line"] == number
            assert answer["error"]
        else:
            assert answer["verdict"] in {"HOLD", "SCALE"}


def test_a_line_nested_beyond_reason_is_an_error() -> None:
    line = b'{"now_s":0,"workload":"ns/a","notes":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    assert "recursion" in json.loads(make_stream().answer(line))["error"]
