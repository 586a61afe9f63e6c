"""Schedules: the course of the rate, lengths, tenants, and that a seed asks the same."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.errors import InputError
from loadtests.traffic.lengths import Lengths, parse
from loadtests.traffic.schedule import Schedule, drawn, replayed, unpacked
from loadtests.traffic.shapes import Shape, instants

SHAPE = Shape("constant", 50.0, 150.0, 60.0, 30.0, 20.0, 5.0)


def schedule(shape: Shape = SHAPE, *, seed: int = 0, outputs: str = "lognormal:200:1.5", tenants: int = 1) -> Schedule:
    return drawn(
        shape, prompts=parse("p", "uniform:10:30"), outputs=parse("o", outputs), tenants=tenants, seed=seed, even=False
    )


@pytest.mark.parametrize(
    ("kind", "expected", "first_half"),
    [
        ("constant", 3000, 0.5),
        ("step", 6000, 0.25),
        ("ramp", 6000, 0.375),
        ("sine", 6000, 0.5),
        ("bursts", 4500, 4 / 9),
    ],
)  # fmt: skip
def test_a_shape_has_the_requests_of_its_rate(kind: str, expected: int, first_half: float) -> None:
    shape = replace(SHAPE, kind=kind)
    even = instants(shape, np.random.default_rng(0), even=True)
    poisson = instants(shape, np.random.default_rng(0))
    assert len(even) == expected
    assert np.mean(even < 30.0) == pytest.approx(first_half, abs=0.04 if kind == "sine" else 0.002)
    assert len(poisson) == pytest.approx(expected, abs=5 * expected**0.5)
    assert bool((np.diff(poisson) >= 0).all())
    assert 0.0 <= poisson[0] <= poisson[-1] <= 60.0


def test_a_step_that_takes_its_time_doubles_along_a_line() -> None:
    shape = replace(SHAPE, kind="step", rate=10.0, to=20.0, at_s=20.0, ramp_s=20.0)
    due_s = instants(shape, np.random.default_rng(0), even=True)
    counts = np.histogram(due_s, (0.0, 20.0, 30.0, 40.0, 60.0))[0]
    assert counts.tolist() == pytest.approx([200, 125, 175, 400], abs=1)


def test_requests_at_random_are_a_poisson_process() -> None:
    gaps = np.diff(instants(replace(SHAPE, duration_s=600.0), np.random.default_rng(1)))
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.02)
    assert gaps.std() == pytest.approx(1 / 50, rel=0.03)


def test_bursts_come_at_the_end_of_each_period() -> None:
    due_s = instants(replace(SHAPE, kind="bursts", rate=0.0, to=10.0), np.random.default_rng(0), even=True)
    assert len(due_s) == 150
    assert {int(at // 5) for at in due_s} == {3, 7, 11}


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 50))
def test_a_seed_gives_the_same_bytes(seed: int, tenants: int) -> None:
    shape = replace(SHAPE, duration_s=2.0)
    first, again = schedule(shape, seed=seed, tenants=tenants), schedule(shape, seed=seed, tenants=tenants)
    assert first.packed() == again.packed()
    assert first.digest() == again.digest() != schedule(shape, seed=seed + 1, tenants=tenants).digest()


def test_another_distribution_of_one_leaves_the_others_as_they_were() -> None:
    one, other = schedule(), schedule(outputs="64", tenants=7)
    assert bool((one.due_s == other.due_s).all())
    assert bool((one.prompt_tokens == other.prompt_tokens).all())
    assert set(other.output_tokens.tolist()) == {64}


@settings(deadline=None)
@given(st.integers(1, 7))
def test_the_workers_shares_are_the_whole(workers: int) -> None:
    whole = schedule(replace(SHAPE, duration_s=2.0))
    parts = [unpacked(whole.share(number, workers).packed()) for number in range(workers)]
    assert sorted(at for part in parts for at in part.due_s.tolist()) == whole.due_s.tolist()
    assert sum(int(part.output_tokens.sum()) for part in parts) == int(whole.output_tokens.sum())


def test_thousands_of_tenants_share_by_the_law_of_zipf() -> None:
    counts = np.bincount(schedule(replace(SHAPE, duration_s=600.0), tenants=3000).tenant, minlength=3000)
    assert counts[0] / counts[1] == pytest.approx(2.0, rel=0.1)
    assert int((counts > 0).sum()) > 2000


@pytest.mark.parametrize(
    ("text", "mean", "cv"),
    [("200", 200, 0.0), ("uniform:100:300", 200, 0.29), ("exponential:200", 200, 1.0), ("lognormal:200:1.5", 200, 1.5)],
)
def test_lengths_have_the_mean_and_the_spread_that_were_written(text: str, mean: float, cv: float) -> None:
    values = parse("--output-tokens", text).draw(200_000, np.random.default_rng(3))
    assert values.mean() == pytest.approx(mean, rel=0.02)
    assert values.std() / values.mean() == pytest.approx(cv, rel=0.05, abs=1e-9)
    assert values.min() >= 1


@pytest.mark.parametrize(
    "text",
    ["", "many", "0", "-3", "nan", "uniform:5", "uniform:9:2", "lognormal:9:-1", "exponential:inf", "pareto:3:2"],
)
def test_lengths_that_mean_nothing_are_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(InputError, match=r"--output-tokens .* write N, uniform:LOW:HIGH"):
        parse("--output-tokens", text)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"kind": "saw"}, "choose from constant"), ({"rate": -1.0}, "--rate is -1"), ({"duration_s": 0.0}, "--for is 0"),
     ({"burst_s": 30.0}, "must not be longer than --period"), ({"to": float("inf")}, "--to is inf")],
    ids=["unknown", "negative", "no time", "a burst longer than its period", "without end"],
)  # fmt: skip
def test_a_shape_that_means_nothing_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(SHAPE, **wrong)


@pytest.mark.parametrize(("rate", "words"), [(0.0, "raise --rate"), (1e9, "lower --rate")])
def test_a_run_without_requests_or_with_too_many_is_refused(rate: float, words: str) -> None:
    with pytest.raises(InputError, match=words):
        instants(replace(SHAPE, rate=rate), np.random.default_rng(0))


@pytest.fixture
def trace(tmp_path: Path) -> str:
    rows = [(0.5, 100, 7), (1.5, 200, 8), (3.5, 300, 9), (8.5, 400, 10)]
    lines = [f"{at},m,,{prompt},{output}" for at, prompt, output in rows]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["arrival_s,model,tenant,prompt_tokens,output_tokens", *lines]) + "\n")
    return str(path)


def replay(trace: str, *, duration_s: float | None = None, rate: float | None = None, outputs: Lengths | None = None):
    return replayed(trace, duration_s=duration_s, rate=rate, prompts=None, outputs=outputs, tenants=1, seed=0)


def test_a_trace_is_replayed_from_its_first_request_on_with_its_own_lengths(trace: str) -> None:
    made = replay(trace, duration_s=5.0)
    assert made.due_s.tolist() == [0.0, 1.0, 3.0]
    assert (made.prompt_tokens.tolist(), made.output_tokens.tolist()) == ([100, 200, 300], [7, 8, 9])
    assert replay(trace, outputs=Lengths("constant", 5)).output_tokens.tolist() == [5] * 4


def test_a_rate_stretches_a_traces_time(trace: str) -> None:
    made = replay(trace, rate=1.0)
    assert made.due_s.tolist() == pytest.approx([0.0, 0.5, 1.5, 4.0])
    assert all(a <= b for a, b in pairwise(made.due_s))


def test_a_trace_that_cannot_be_read_is_told_of_by_its_reader(tmp_path: Path, trace: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        replay(str(tmp_path / "none.csv"))
    with pytest.raises(InputError, match="no instants to replay; leave rate= out"):
        replay(f"{trace}#rate=5")
