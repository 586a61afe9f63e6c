"""`headroom doctor` of batch work: which kinds are admitted and where, what is missing for it, loans that are none."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.doctor import QUEUES, examined, job, looked_at, resources, rows
from tests.cli.plane import Plane
from tests.kube.places import places

JOBSETS = {"/apis/jobset.x-k8s.io/v1alpha2": resources("jobsets", "jobsets/status")}
HOLDING = "/apis/admissionregistration.k8s.io/v1"
NEW = {HOLDING: resources("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")}
BINDINGS, POLICIES = f"{HOLDING}/mutatingadmissionpolicybindings", f"{HOLDING}/mutatingadmissionpolicies"
MADE: dict[str, Any] = {POLICIES: {"items": [places()]}, BINDINGS: {"items": []}}
BOUND = MADE | {BINDINGS: {"items": [{"spec": {"policyName": "headroom-places"}}]}}
GONE = BOUND | {POLICIES: {"items": [{"spec": "odd"}, {"metadata": {"name": "theirs"}}]}}
EDITED = BOUND | {POLICIES: {"items": [{"metadata": {"name": "headroom-places"}, "spec": {"mutations": []}}]}}
OTHERS = MADE | {BINDINGS: {"items": [{"spec": {"policyName": "theirs"}}, {}]}}
KUBEFLOW = "/apis/kubeflow.org/v1"
TORCH = {KUBEFLOW: resources("pytorchjobs", "notebooks")}
BOTH = {KUBEFLOW: resources("pytorchjobs", "tfjobs")}
TRAINER = {"/apis/trainer.kubeflow.org/v1alpha1": resources("trainjobs")}


def test_it_says_in_which_namespaces_of_queues_pods_are_let_in(cluster: Plane, tmp_path: Path) -> None:
    cluster.objects[QUEUES] = {"items": [{"spec": {"namespaces": ["lab", "vision"]}}, {"spec": {}}, "odd"]}
    told = looked_at(cluster, tmp_path, "Pod")
    words = "those behind the gate headroom.dev/admission are let in in lab, vision"
    assert (told["state"], told["words"]) == ("ok", words)
    told = looked_at(cluster, tmp_path, "Pod", "watch_namespaces: [lab]")
    assert told["words"].endswith("let in in lab")
    cluster.denied.add("patch pods in vision")
    told = looked_at(cluster, tmp_path, "Pod")
    assert told["words"].endswith("let in in lab; in vision they stay there, and nobody is stopped for them")
    cluster.denied.add("patch pods")
    told = looked_at(cluster, tmp_path, "Pod")
    assert (told["state"], "headroom may patch pods in no namespace of a queue" in told["words"]) == ("ok", True)


def test_it_names_each_queue_of_which_gangs_are_not_looked_at(cluster: Plane, tmp_path: Path) -> None:
    def queue(name: str, status: str) -> dict[str, Any]:
        said = {"type": "TakenIn", "status": status, "message": "150000 more are not looked at, for 50000 of all are."}
        return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}, said]}}

    cluster.objects[QUEUES] = {"items": [queue("flood", "False"), queue("small", "True"), {"spec": {}}, "odd"]}
    told = looked_at(cluster, tmp_path, "BatchQueue flood")
    assert (told["state"], told["words"]) == ("warn", "150000 more are not looked at, for 50000 of all are.")
    path = tmp_path / "settings.yaml"
    assert "BatchQueue small" not in {row["check"] for row in examined(cluster, "--config", str(path))[1]}


CASES: dict[str, tuple[str, dict[str, Any], str, str, str]] = {
    "JobSet: not served": (
        "JobSet", {}, "", "ok",
        "/apis/jobset.x-k8s.io/v1alpha2 has none: there is nothing of this kind to admit",
    ),
    "JobSet: a right is missing": (
        "JobSet", JOBSETS, "patch jobsets", "warn",
        "headroom may not patch jobset.x-k8s.io/jobsets",
    ),
    "JobSet: an older Kubernetes": (
        "JobSet", JOBSETS, "", "warn",
        "the API server has no mutatingadmissionpolicybindings",
    ),
    "JobSet: bound is another policy": (
        "JobSet", JOBSETS | NEW | OTHERS, "", "warn",
        "no MutatingAdmissionPolicy headroom-places is in force, it is not bound",
    ),
    "JobSet: what is bound is gone": (
        "JobSet", JOBSETS | NEW | GONE, "", "warn",
        "headroom-places is in force, it is bound and is not there",
    ),
    "JobSet: what is bound was edited": (
        "JobSet", JOBSETS | NEW | EDITED, "", "warn",
        "is in force, it is not the one that this version comes with",
    ),
    "JobSet: well": ("JobSet", JOBSETS | NEW | BOUND, "", "ok", "those in queues are admitted"),
    "PyTorchJob and TFJob: not served": (
        "PyTorchJob and TFJob", {}, "", "ok",
        "/apis/kubeflow.org/v1 has none: there is nothing of this kind to admit",
    ),
    "PyTorchJob and TFJob: a right is missing": (
        "PyTorchJob and TFJob", TORCH, "patch pytorchjobs", "warn",
        "headroom may not patch kubeflow.org/pytorchjobs",
    ),
    "PyTorchJob and TFJob: of one kind that is not served": (
        "PyTorchJob and TFJob", TORCH, "patch tfjobs", "ok",
        "those in queues are admitted",
    ),
    "PyTorchJob and TFJob: of one kind of two": (
        "PyTorchJob and TFJob", BOTH, "list tfjobs", "warn",
        "may not list kubeflow.org/tfjobs",
    ),
    "TrainJob: not served": (
        "TrainJob", {}, "", "ok",
        "/apis/trainer.kubeflow.org/v1alpha1 has none: there is nothing of this kind to admit",
    ),
    "TrainJob: a right is missing": (
        "TrainJob", TRAINER, "list clustertrainingruntimes", "warn",
        "list trainer.kubeflow.org/clustertrainingruntimes",
    ),
    "TrainJob: no policy": (
        "TrainJob", TRAINER | JOBSETS | NEW | MADE, "", "warn",
        "as the Trainer makes JobSets of them: not admitted: no",
    ),
    "TrainJob: JobSets are not": (
        "TrainJob", TRAINER | JOBSETS | NEW | BOUND, "patch jobsets", "warn",
        "headroom may not patch jobset.x-k8s.io/jobsets",
    ),
    "TrainJob: admitted": ("TrainJob", TRAINER | JOBSETS | NEW | BOUND, "", "ok", "those in queues are admitted"),
}  # fmt: skip
"""Of which kind, what the server has besides, the right that is denied, what is told."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_says_whether_a_kind_of_work_is_admitted_and_what_is_missing(
    cluster: Plane, tmp_path: Path, case: tuple[str, dict[str, Any], str, str, str]
) -> None:
    kind, served, denied, state, words = case
    cluster.objects |= served
    cluster.denied.add(denied)
    told = looked_at(cluster, tmp_path, kind)
    assert told["state"] == state
    assert words in told["words"]
    assert (told["remedy"] is None) == (state == "ok")


@pytest.mark.parametrize(
    "forbidden", ["POST /apis/authorization.k8s.io/v1/subjectaccessreviews", f"GET {BINDINGS}", f"GET {POLICIES}"]
)
def test_whoever_may_not_see_how_it_is_with_jobsets_is_told_so_and_finds_no_fault(
    cluster: Plane, tmp_path: Path, forbidden: str
) -> None:
    cluster.objects |= JOBSETS | NEW | BOUND
    cluster.forbidden.add(forbidden)
    told = looked_at(cluster, tmp_path, "JobSet")
    assert told["state"] == "warn"
    assert told["words"].startswith("cannot be told whether those in queues are admitted")
    assert forbidden.partition(" ")[2] in told["words"]


def test_where_only_some_namespaces_are_watched_jobsets_need_only_be_changed_there(
    cluster: Plane, tmp_path: Path
) -> None:
    cluster.objects |= JOBSETS | NEW | BOUND
    looked_at(cluster, tmp_path, "JobSet", "watch_namespaces: [prod, test]\n")
    asked = [review["spec"]["resourceAttributes"] for review in cluster.reviews]
    changes = [one.get("namespace") for one in asked if (one["resource"], one["verb"]) == ("jobsets", "patch")]
    assert changes == ["prod", "test"]


def test_a_loan_that_is_told_of_and_is_none_is_named_with_what_to_do(cluster: Plane, tmp_path: Path) -> None:
    settings = "warm_pools: {enabled: true, registries: [registry.example.com]}\n"
    pools, jobs = "/apis/headroom.dev/v1alpha1/warmpools", "/apis/batch/v1/jobs"
    loans = [{"gang": f"job/lab/{name}", "units": 8} for name in ("runs", "gone", "over", "paused")]
    loans.append({"gang": "job/lab/recalled", "units": 8, "recalledAt": "2026-11-22T20:00:00Z"})
    loans.append({"gang": "job/lab/hangs", "units": 8, "recalledAt": "2026-11-22T20:00:00Z", "overdue": True})
    over = job("over", False) | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    noted = job("paused", True)
    noted["metadata"]["annotations"] = {"headroom.dev/loan": "{}"}
    cluster.objects |= {
        pools: {"items": [{"metadata": {"name": "chat"}, "status": {"loans": loans}}, {"metadata": {"name": "new"}}]},
        jobs: {"items": [job("runs", False), over, noted, job("recalled", True), job("hangs", True)]},
    }
    path = tmp_path / "settings.yaml"
    path.write_text(f"batch: {{enabled: true}}\nshapes: {{h100: {{sku: h100}}}}\n{settings}")
    found = [row for row in examined(cluster, "--config", str(path))[1] if row["check"] == "loans"]
    assert rows(found, "warn") == [
        ("loans", "WarmPool chat tells of 8 units lent to job/lab/gone, which is gone"),
        ("loans", "WarmPool chat tells of 8 units lent to job/lab/over, which is gone"),
        ("loans", "WarmPool chat tells of 8 units lent to job/lab/paused, which is suspended"),
        ("loans", "job/lab/hangs was told to give 8 units back to WarmPool chat and does not go"),
        ("loans", "job/lab/paused is suspended and says in headroom.dev/loan that it has units on loan: it has none"),
    ]
    assert "kubectl -n lab annotate jobs paused headroom.dev/loan-" in found[-1]["remedy"]
    cluster.objects[pools]["items"][0]["status"] = {"loans": loans[:1]}
    cluster.objects[jobs]["items"].remove(noted)
    assert looked_at(cluster, tmp_path, "loans", settings)["state"] == "ok"
    assert [row for row in examined(cluster)[1] if row["check"] == "loans"] == [], "where nothing is lent"
