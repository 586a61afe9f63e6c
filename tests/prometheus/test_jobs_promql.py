"""The questions about Jobs in Prometheus' own engine, over series whose truth is known to the sample."""

import json
import math
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from autoscaler.adapters.prometheus.jobs import HELD, OF_JOBS, OF_PODS, PENDING, RUNGS, SEEN, job_questions
from autoscaler.adapters.prometheus.questions import SIGNAL, Window

pytestmark = [pytest.mark.real, pytest.mark.needs("prometheus")]

MINUTES: Final = 240
QUESTIONS: Final = {one.name: one for one in job_questions(Window(0, 30, 2 * MINUTES))}
STARTED_S, COMPLETED_S, GONE_MIN = 600, 6000, 131
Row = tuple[str, dict[str, str], str]


def values(from_min: int, until_min: int, value: int = 1) -> str:
    """A sample a minute; an underscore stands for none."""
    return f"_x{from_min} {value}x{until_min - from_min - 1} _x{MINUTES - until_min}"


def train() -> Iterator[Row]:
    """Two pods of two containers of 4 GPUs, under labels that collided, told of by two scrapers, from 10 to 100 min."""
    for pod in ("train-a", "train-b"):
        for scraper in ("ksm", "ksm-2"):
            own = {
                "namespace": "monitoring", "pod": "ksm-0", "container": "ksm", "job": scraper,
                "exported_namespace": "lab", "exported_pod": pod,
            }  # fmt: skip
            yield "kube_pod_owner", {**own, "owner_kind": "Job", "owner_name": "train"}, values(10, GONE_MIN)
            for container in ("a", "b"):
                asked = {**own, "exported_container": container, "resource": "nvidia_com_gpu"}
                yield "kube_pod_container_resource_requests", asked, values(10, GONE_MIN, 4)
                asked = {**asked, "resource": "cpu"}
                yield "kube_pod_container_resource_requests", asked, values(10, GONE_MIN, 96)
            yield "kube_pod_status_phase", {**own, "phase": "Running"}, "_x10 1x90 0x29 _x109"
            yield "kube_pod_status_phase", {**own, "phase": "Succeeded"}, "_x10 0x90 1x29 _x109"
    job = {"namespace": "monitoring", "exported_namespace": "lab", "job_name": "train"}
    yield "kube_job_status_start_time", job, values(10, GONE_MIN, STARTED_S)
    yield "kube_job_status_completion_time", job, values(101, GONE_MIN, COMPLETED_S)


def others() -> Iterator[Row]:
    """A Job that waits, a Deployment, and a Job without GPUs."""
    for pod, kind, resource, gpus, phase in (
        ("waits-0", "Job", "amd_com_gpu", 8, "Pending"),
        ("serves-0", "ReplicaSet", "nvidia_com_gpu", 2, "Running"),
        ("counts-0", "Job", "cpu", 3, "Running"),
    ):
        own = {"namespace": "team", "pod": pod}
        yield "kube_pod_owner", {**own, "owner_kind": kind, "owner_name": pod[:-2]}, values(0, MINUTES)
        asked = {**own, "container": "main", "resource": resource}
        yield "kube_pod_container_resource_requests", asked, values(0, MINUTES, gpus)
        yield "kube_pod_status_phase", {**own, "phase": phase}, values(0, MINUTES)
    job = {"namespace": "team", "job_name": "counts"}
    yield "kube_job_status_start_time", job, values(0, MINUTES, 10)
    yield "kube_job_status_completion_time", job, values(0, MINUTES, 4000)


def written(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def told(at_s: int, name: str, *rows: tuple[dict[str, str], float]) -> dict[str, Any]:
    samples = [{"labels": written(labels), "value": value} for labels, value in rows]
    return {"expr": QUESTIONS[name].query, "eval_time": f"{at_s}s", "exp_samples": samples}


def held_at(at_s: int, owned: int, *rows: tuple[str, str, float]) -> dict[str, Any]:
    """With how many series of pods' owners there are, which says that kube-state-metrics was read."""
    gpus = [({"namespace": space, SIGNAL: signal}, value) for signal, space, value in rows]
    return told(at_s, "held", *gpus, *([({SIGNAL: SEEN}, owned)] if owned else []))


def ended() -> Iterator[dict[str, Any]]:
    """The Job counts in the piece it completed in, and in no other, however long it is still told of."""
    asked = QUESTIONS["ended"]
    rung = math.ceil(math.log2(COMPLETED_S - STARTED_S) * RUNGS)
    for piece in range(asked.points):
        from_s = asked.start_s + piece * asked.step_s
        rows = [({"namespace": "lab", "rung": f"{rung}"}, 1)] if from_s < COMPLETED_S <= from_s + asked.step_s else []
        yield told(asked.first_s + piece * asked.step_s, "ended", *rows)


def test_gpus_are_counted_once_by_phase_and_a_job_in_the_piece_in_which_it_completed(tmp_path: Path) -> None:
    waits = (PENDING, "team", 8)
    series = [{"series": f"{name}{written(labels)}", "values": row} for name, labels, row in (*train(), *others())]
    rows = [name for name, labels, _ in (*train(), *others()) if labels.get("phase", "Running") == "Running"]
    names = Counter(name for name in rows if name in (*OF_PODS, *OF_JOBS))
    checks = [
        held_at(300, 3, waits), held_at(3000, 7, (HELD, "lab", 16), waits), held_at(7000, 7, waits), *ended(),
        told(7000, "names", *(({"__name__": name}, count) for name, count in names.items())),
    ]  # fmt: skip
    judged(tmp_path / "jobs.yaml", series, checks)


def test_a_night_without_a_pod_of_a_job_was_looked_at_and_an_outage_was_not(tmp_path: Path) -> None:
    """Of two collectors, those of pods and jobs; all of it ends after two hours."""
    own = {"namespace": "team", "pod": "serves-0", "owner_kind": "ReplicaSet", "owner_name": "serves"}
    series = [{"series": f"kube_pod_owner{written(own)}", "values": values(0, 120)}]
    judged(tmp_path / "night.yaml", series, [held_at(300, 1), held_at(7000, 1), held_at(9000, 0)])


def test_of_one_namespace_nothing_of_others_is_counted(tmp_path: Path) -> None:
    """Of `team` one Job waits; `lab` is told of by a scrape in `monitoring`, which itself has nothing."""
    series = [{"series": f"{name}{written(labels)}", "values": row} for name, labels, row in (*train(), *others())]
    window = Window(0, 30, 2 * MINUTES)
    rung = math.ceil(math.log2(COMPLETED_S - STARTED_S) * RUNGS)
    checks = []
    for space, owned, gpus, jobs in (
        ("team", 3, [({"namespace": "team", SIGNAL: PENDING}, 8)], []),
        ("lab", 4, [({"namespace": "lab", SIGNAL: HELD}, 16)], [({"namespace": "lab", "rung": f"{rung}"}, 1)]),
        ("monitoring", 0, [], []),
    ):
        asked = {one.name: one for one in job_questions(window, [space])}
        seen = [({SIGNAL: SEEN}, owned)] if owned else []
        at_s = 3600 * math.ceil((COMPLETED_S - asked["ended"].start_s) / 3600) + asked["ended"].start_s + 300
        checks += [
            {**told(3000, "held", *gpus, *seen), "expr": asked["held"].query},
            {**told(at_s, "ended", *jobs), "expr": asked["ended"].query},
        ]
    judged(tmp_path / "within.yaml", series, checks)


def judged(file: Path, series: list[dict[str, str]], checks: list[dict[str, Any]]) -> None:
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
