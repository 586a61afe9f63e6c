"""A run of the command itself that is cut, by a person or by a kill, and the one after it."""

import asyncio
import contextlib
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web

from tests.conftest import ROOT
from tests.prometheus.past import FakePast, Form, error, past

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

WORKLOADS = [f"w{number}" for number in range(4)]
PARTS = 4 * (2 + 2 + 3)
"""Four days at 30 s: the gauges and the rates in two parts, both histograms and the names whole."""


def told(t_s: np.ndarray) -> list[tuple[dict[str, str], np.ndarray]]:
    signals = ("running", "waiting", "replicas", "busy_replicas", "kv_usage_ratio", "arrivals_per_s", "tokens_per_s")
    return [({"headroom_signal": name}, np.full(t_s.size, 0.5)) for name in signals]


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[FakePast]:
    async with past() as fake:
        labels = [{"namespace": "team", "pod": f"{name}-7d4b9c6f58-x2x9q", "job": "j"} for name in WORKLOADS]
        fake.series["vllm:num_requests_running"] = [{"__name__": "vllm:num_requests_running", **one} for one in labels]
        fake.ranges["count_over_time"] = lambda t_s: [({"job": "j"}, np.full(t_s.size, 31.0))]
        fake.ranges["headroom_signal"] = told
        yield fake


def asked(fake: FakePast) -> Counter[tuple[str, str]]:
    """The parts that were asked for; what it takes to find the workloads is asked for by every run."""
    finds = ("kube_pod", "count_over_time")
    ranges = [form for form in fake.asked if "step" in form and "team" in form["query"]]
    parts = [form for form in ranges if not any(word in form["query"] for word in finds)]
    return Counter((form["query"], form["start"]) for form in parts)


async def start(fake: FakePast, out: Path, *more: str) -> asyncio.subprocess.Process:
    words = [
        "preflight",
        "--prometheus",
        fake.url,
        "--out",
        str(out),
        "--cold-start",
        "120",
        "--days",
        "4",
        "--json",
        *more,
    ]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "autoscaler", *words, *more, cwd=ROOT,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize("cut", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
async def test_a_run_that_is_cut_goes_on_where_it_was(tmp_path: Path, cut: signal.Signals) -> None:
    out, half = tmp_path / "report", asyncio.Event()

    def tells_at_half(form: Form) -> web.Response | None:
        if "step" in form and sum(asked(fake).values()) > PARTS // 2:
            half.set()
        return None

    async with cluster() as fake:
        fake.fault = tells_at_half
        first = await start(fake, out)
        await asyncio.wait_for(half.wait(), 60)
        first.send_signal(cut)
        _, said = await asyncio.wait_for(first.communicate(), 20)
        kept = len(list((out / ".prometheus").glob("*.past")))
        assert 0 < kept < PARTS
        assert not (out / "preflight.json").exists()
        if cut is signal.SIGINT:
            assert first.returncode == 130
            assert b"parts are kept; the same command goes on from there" in said
        before = asked(fake)
        fake.asked.clear()
        fake.fault = lambda _form: None
        second = await start(fake, out)
        document, said = await asyncio.wait_for(second.communicate(), 60)
        assert second.returncode == 0, said.decode()
        again = asked(fake)
    assert sum(again.values()) == PARTS - kept
    assert len(before | again) == PARTS, "the window of the second run is that of the first, minutes later or not"
    assert b"goes on with a run that was cut" in said
    assert f" {kept} parts from a run before" in said.decode()
    found = json.loads(document)
    assert [one["workload"] for one in found["workloads"]] == [f"team/{name}" for name in WORKLOADS]
    assert any("goes on with a run that was cut" in note for note in found["notes"])


async def test_what_could_not_be_read_stands_in_the_document_with_its_times(tmp_path: Path) -> None:
    def one_day(form: Form) -> web.Response | None:
        lost = "step" in form and "w3" in form["query"] and "running" in form["query"]
        return error(422, "too many samples") if lost and int(form["start"]) < 1_700_100_000 else None

    async with cluster() as fake:
        fake.fault = one_day
        window = ("--from", "2023-11-15", "--to", "2023-11-18")
        run = await start(fake, tmp_path / "report", *window)
        document, said = await asyncio.wait_for(run.communicate(), 60)
        assert run.returncode == 0, said.decode()
    studies = {one["workload"]: one for one in json.loads(document)["workloads"]}
    assert "running" not in studies["team/w0"]["holes"]
    holes = studies["team/w3"]["holes"]["running"]
    assert {hole["gap"] for hole in holes} == {"TOO_MANY"}
    assert holes[0]["from_s"] == 1_700_006_400
    assert max(hole["until_s"] for hole in holes) >= 1_700_100_000
    assert "--query.max-samples" in holes[0]["text"]


async def test_a_person_can_end_a_run_whose_server_hangs(tmp_path: Path) -> None:
    asked_once = asyncio.Event()

    async def hangs() -> web.StreamResponse:
        asked_once.set()
        await asyncio.sleep(60)
        return web.Response()

    async with cluster() as fake:
        fake.fault = lambda form: hangs() if "headroom_signal" in form.get("query", "") else None
        run = await start(fake, tmp_path / "report")
        await asyncio.wait_for(asked_once.wait(), 60)
        begun_s = asyncio.get_running_loop().time()
        run.send_signal(signal.SIGINT)
        _, said = await asyncio.wait_for(run.communicate(), 20)
        assert asyncio.get_running_loop().time() - begun_s < 10, "the query's own time-out is a minute"
    assert run.returncode == 130
    assert b"0 of 28 parts are kept" in said
    assert b"Traceback" not in said
