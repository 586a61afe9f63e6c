"""`headroom doctor`: each thing that can be wrong is a row with a remedy, and only failures make the exit code 1."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from autoscaler.api.claims import Kind
from autoscaler.api.crd import definition
from autoscaler.cli.checks import of_workload
from autoscaler.cli.definitions import DEFINITIONS
from autoscaler.cli.main import app
from autoscaler.cli.rights import Own, Right, jobset_rights, rights, training_rights, trainjob_rights
from autoscaler.record.hpa import WHERE, HpaPreview
from autoscaler.record.status import About, Problem, Rejected, WorkloadStatus
from autoscaler.record.stream import SignalFrame
from autoscaler.settings.model import Settings
from tests.cli.plane import FREEZE, LEASE, OWN, POD, Plane, config, lease, plane
from tests.conftest import ROOT
from tests.kube.places import places
from tests.record.test_board import AIM, step
from tests.web.test_live import CHAT, FOLLOWING, Controller

run = CliRunner().invoke
QUEUES = "/apis/headroom.dev/v1alpha1/batchqueues"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    """A cluster in which everything is as it should be."""
    controller = Controller(workloads={"prod/chat": CHAT})
    controller.board.stepped(step(100.0), AIM, 100.2)
    with plane(tmp_path, controller) as made:
        later = datetime.now(UTC) + timedelta(minutes=1)  # on a machine that is busy it is looked at late
        now = later.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        made.objects |= {
            LEASE: lease(renewed=now),
            "/apis/apps/v1": resources("deployments", "deployments/scale", "statefulsets", "statefulsets/scale"),
            "/apis/headroom.dev/v1alpha1": resources(
                "scalingpolicies", "scalingpolicies/status", "warmpools", "batchqueues"
            ),
            QUEUES: {"items": []},
        }
        yield made


def resources(*names: str) -> dict[str, Any]:
    return {"resources": [{"name": name} for name in names]}


def examined(cluster: Plane, *options: str) -> tuple[int, list[dict[str, Any]]]:
    result = run(app, ["doctor", "--json", *cluster.options(), *options])
    assert result.stderr == ""
    return result.exit_code, json.loads(result.stdout)


def rows(found: list[dict[str, Any]], *states: str) -> list[tuple[str, str]]:
    return [(row["check"], row["words"]) for row in found if row["state"] in states]


def test_a_cluster_that_is_well_is_all_ok_and_nothing_is_written(cluster: Plane) -> None:
    code, found = examined(cluster)
    assert (code, rows(found, "warn", "fail")) == (0, [])
    assert [row["check"] for row in found] == [
        "API server", "clock", "ScalingPolicy", "Deployment", "StatefulSet", "LeaderWorkerSet", "rights", "lease",
        "freeze", "controller", "prod/chat",
    ]  # fmt: skip
    assert ("rights", f"system:serviceaccount:{OWN}:headroom may do all 42 things that are needed") in rows(found, "ok")
    assert cluster.written == []


def installed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A definition in the cluster, whose spec has been changed."""
    made = definition()
    change(made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return {f"{DEFINITIONS}/{made['metadata']['name']}": made}


def test_a_definition_of_this_version_is_nothing_to_tell(cluster: Plane) -> None:
    cluster.objects.update(installed(lambda spec: None))
    _, found = examined(cluster)
    assert rows(found, "warn", "fail") == []
    cluster.objects.update(installed(lambda spec: spec["properties"].clear()))
    cluster.forbidden.add(f"GET {DEFINITIONS}")
    _, found = examined(cluster)
    assert rows(found, "warn", "fail") == [], "who may not read definitions is not bothered with them"


FAULTS: dict[str, tuple[Callable[[Plane], Any], int, str, str]] = {
    "a clock that is ahead": (
        lambda c: setattr(c, "date_s", lambda: time.time() - 90), 0, "clock", "ahead of the server's",
    ),
    "a clock that is behind": (
        lambda c: setattr(c, "date_s", lambda: time.time() + 600), 0, "clock", "behind the server's",
    ),
    "no custom resource": (
        lambda c: c.objects.pop("/apis/headroom.dev/v1alpha1"), 0, "ScalingPolicy", "the custom resource is not insta",
    ),
    "a version before queues": (
        lambda c: c.objects.update({"/apis/headroom.dev/v1alpha1": resources("scalingpolicies", "warmpools")}), 0,
        "BatchQueue", "is served without it: the definitions are of an older version",
    ),
    "a custom resource of an older version": (
        lambda c: c.objects.update(installed(lambda spec: spec["properties"].pop("maxReplicas"))), 0, "ScalingPolicy",
        "scalingpolicies.headroom.dev is older than this version: it drops spec.maxReplicas",
    ),
    "a custom resource of a newer version": (
        lambda c: c.objects.update(installed(lambda spec: spec["properties"].update(sloP99={"type": "number"}))), 0,
        "ScalingPolicy", "is newer than this version, which ignores spec.sloP99",
    ),
    "a custom resource of versions to come": (
        lambda c: c.objects.update(installed(lambda spec: spec["properties"].clear())), 0, "ScalingPolicy", " more",
    ),
    "a kind without /scale": (
        lambda c: c.objects.update({"/apis/apps/v1": resources("deployments")}), 1, "Deployment", "serves no /scale",
    ),
    "one verb missing": (
        lambda c: c.denied.add("patch deployments/scale"), 1, "rights",
        "may not patch apps/deployments/scale, needed to change replica counts",
    ),
    "no right to scale": (
        lambda c: c.denied.update(f"{verb} {kind}/scale" for verb in ("get", "patch") for kind in (
            "deployments", "statefulsets", "leaderworkersets")), 0, "rights",
        "may change no replica counts: whatever is Active will be refused",
    ),
    "no right to ask about others": (
        lambda c: c.forbidden.add("POST /apis/authorization.k8s.io/v1/subjectaccessreviews"), 0, "rights",
        "your own rights are looked at instead",
    ),
    "no lease": (lambda c: c.objects.pop(LEASE), 1, "lease", "headroom-system/headroom does not exist"),
    "an unheld lease": (
        lambda c: c.objects.update({LEASE: lease(None)}), 1, "lease", "headroom-system/headroom is held by nobody",
    ),
    "a lease that nobody renews": (
        lambda c: c.objects.update({LEASE: lease(renewed="2025-11-27T10:00:00.000000Z")}), 1, "lease",
        "but it was renewed",
    ),
    "a lease that may not be read": (lambda c: c.forbidden.add(f"GET {LEASE}"), 1, "lease", "403 Forbidden"),
    "a freeze": (
        lambda c: c.objects.update({FREEZE: {"data": {"freeze": "incident 7"}}}), 0, "freeze",
        "everything is frozen: incident 7",
    ),
    "a leader that does not answer": (
        lambda c: c.forbidden.add(f"GET /api/v1/namespaces/{OWN}/pods/{POD}"), 1, "controller", "could not be asked",
    ),
    "a controller that is not ready": (
        lambda c: setattr(c.controller, "not_ready", ("pods was not heard for 130 s",)), 1, "controller",
        "headroom-0_1 is not ready: pods was not heard for 130 s",
    ),
    "nothing to scale": (lambda c: setattr(c.controller, "workloads", {}), 0, "workloads", "nobody asks to be scaled"),
    "a policy that cannot be read": (
        lambda c: setattr(c.controller, "rejected", (Rejected("prod", "ScalingPolicy", "x", "Invalid", "spec: bad"),)),
        1, "prod/x", "ScalingPolicy is not served: spec: bad",
    ),
    "a workload never decided on": (
        lambda c: setattr(c.controller, "workloads", {"prod/new": CHAT}), 1, "prod/new", "not decided on yet",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "code", "check", "words"), FAULTS.values(), ids=FAULTS)
def test_each_fault_is_a_row_with_a_remedy(
    cluster: Plane, spoil: Callable[[Plane], Any], code: int, check: str, words: str
) -> None:
    spoil(cluster)
    exit_code, found = examined(cluster)
    assert exit_code == code
    bad = [row for row in found if row["state"] != "ok" and row["check"] == check]
    assert any(words in row["words"] for row in bad), found
    assert all(row["remedy"] for row in bad)
    assert any(row["state"] == ("fail" if code else "warn") for row in bad)


def test_the_controller_is_asked_where_a_person_has_forwarded_its_port(cluster: Plane) -> None:
    _, found = examined(cluster, "--server", "http://127.0.0.1:1")
    assert [row["check"] for row in found if row["state"] == "fail"] == ["controller"]
    assert "http://127.0.0.1:1/api/status" in found[-1]["words"]


def test_when_the_api_server_cannot_be_reached_that_is_the_only_row(cluster: Plane) -> None:
    cluster.kubeconfig.write_text(json.dumps(config("http://127.0.0.1:1")))
    code, found = examined(cluster)
    assert (code, [row["check"] for row in found], found[0]["state"]) == (1, ["API server"], "fail")


@pytest.mark.parametrize(
    ("options", "kind", "user"),
    [
        ([], "SubjectAccessReview", f"system:serviceaccount:{OWN}:headroom"),
        (["--service-account", "other"], "SubjectAccessReview", f"system:serviceaccount:{OWN}:other"),
        (["--own-rights"], "SelfSubjectAccessReview", None),
    ],
)
def test_the_rights_are_those_of_the_controllers_account_unless_others_are_asked_for(
    cluster: Plane, options: list[str], kind: str, user: str | None
) -> None:
    examined(cluster, *options)
    assert {review["kind"] for review in cluster.reviews} == {kind}
    assert {review["spec"].get("user") for review in cluster.reviews} == {user}


def granted(folder: Path) -> set[tuple[str, str, str, str | None, str | None]]:
    """What the roles of the repository grant: group, resource, verb, namespace, name."""
    found = set()
    for path in folder.glob("*role.yaml"):
        role = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Any])
        namespace = role["metadata"].get("namespace")
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", [None]):
                            found.add((group, resource, verb, namespace, name))
    return found


def test_the_rights_that_are_looked_at_are_exactly_those_that_the_roles_grant() -> None:
    settings = Settings()
    kinds = [Kind(k.group, k.version, k.resource, k.kind) for k in settings.kinds]
    own = Own(settings.namespace, settings.lease.name, settings.freeze_config_map)
    needed = rights(kinds, settings.watch_namespaces, own)
    assert len(set(needed)) == len(needed)
    assert {(r.group, r.resource, r.verb, r.namespace, r.name) for r in needed} == granted(ROOT / "config" / "rbac")


def test_where_only_some_namespaces_are_watched_rights_are_asked_for_there() -> None:
    own = Own("ops", "headroom", "headroom-freeze")
    needed = rights([Kind("apps", "v1", "deployments", "Deployment")], ["prod", "test"], own)
    assert Right("apps", "deployments/scale", "patch", "change replica counts", "test") in needed
    assert {right.resource for right in needed if right.namespace is None} == {"nodes"}
    assert needed[-1].words == "delete configmaps in ops"


def test_the_optional_role_grants_exactly_what_marking_pods_takes() -> None:
    own = Own("headroom-system", "headroom", "headroom-freeze")
    with_it, without = (set(rights([], [], own, deletion_cost=given)) for given in (True, False))
    assert {(r.group, r.resource, r.verb, r.namespace, r.name) for r in with_it - without} == granted(
        ROOT / "config" / "rbac" / "optional"
    )


def test_the_roles_of_warm_pools_grant_exactly_what_they_take_besides() -> None:
    own, slots = Own("headroom-system", "headroom", "headroom-freeze"), "headroom-slots"
    with_it, without = (rights([], [], own, slots=given) for given in (slots, None))
    pools = {(r.group, r.resource, r.verb, r.namespace, r.name) for r in with_it}
    others = {(r.group, r.resource, r.verb, r.namespace, r.name) for r in without}
    granting = granted(ROOT / "config" / "rbac" / "warm-pools")
    assert pools - others <= granting <= pools
    assert not {right for right in granting if right[3] not in {None, slots}}, "nothing elsewhere"
    assert {right[2] for right in granting if right[1] == "pods" and right[3] is None} == {"list", "watch"}


def test_the_role_of_batch_admission_grants_exactly_what_it_takes_besides() -> None:
    own = Own("headroom-system", "headroom", "headroom-freeze")
    with_it, without = (rights([], [], own, batch=given) for given in (True, False))
    batch = {(r.group, r.resource, r.verb, r.namespace, r.name) for r in with_it}
    others = {(r.group, r.resource, r.verb, r.namespace, r.name) for r in without}
    granting = granted(ROOT / "config" / "rbac" / "batch")
    assert batch - others <= granting <= batch
    assert {(right[1], right[2]) for right in granting if right[2] not in {"list", "watch"}} == {
        ("jobs", "patch"), ("batchqueues/status", "patch"), ("events", "create"), ("events", "patch"),
    }  # fmt: skip


def test_the_role_of_jobsets_grants_exactly_what_they_take_besides() -> None:
    jobsets = {(r.group, r.resource, r.verb, r.namespace, r.name) for r in jobset_rights([])}
    assert granted(ROOT / "config" / "rbac" / "jobsets") == jobsets


def test_the_role_of_the_training_operators_jobs_grants_exactly_what_they_take_besides() -> None:
    jobs = {(r.group, r.resource, r.verb, r.namespace, r.name) for r in training_rights([])}
    assert granted(ROOT / "config" / "rbac" / "training-jobs") == jobs


def test_the_role_of_trainjobs_grants_exactly_what_they_take_besides_jobsets() -> None:
    jobs = {(r.group, r.resource, r.verb, r.namespace, r.name) for r in trainjob_rights([])}
    assert granted(ROOT / "config" / "rbac" / "train-jobs") == jobs


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


JOBSETS = {"/apis/jobset.x-k8s.io/v1alpha2": resources("jobsets", "jobsets/status")}
HOLDING = "/apis/admissionregistration.k8s.io/v1"
NEW = {HOLDING: resources("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")}
BINDINGS, POLICIES = f"{HOLDING}/mutatingadmissionpolicybindings", f"{HOLDING}/mutatingadmissionpolicies"
MADE: dict[str, Any] = {POLICIES: {"items": [places()]}, BINDINGS: {"items": []}}
BOUND = MADE | {BINDINGS: {"items": [{"spec": {"policyName": "headroom-places"}}]}}
GONE = BOUND | {POLICIES: {"items": [{"spec": "odd"}, {"metadata": {"name": "theirs"}}]}}
EDITED = BOUND | {POLICIES: {"items": [{"metadata": {"name": "headroom-places"}, "spec": {"mutations": []}}]}}
OTHERS = MADE | {BINDINGS: {"items": [{"spec": {"policyName": "theirs"}}, {}]}}


def looked_at(cluster: Plane, folder: Path, check: str, settings: str = "") -> dict[str, Any]:
    """What is found of one kind of work where batch work is admitted."""
    path = folder / "settings.yaml"
    path.write_text(f"batch: {{enabled: true}}\nshapes: {{h100: {{sku: h100}}}}\n{settings}")
    (told,) = [row for row in examined(cluster, "--config", str(path))[1] if row["check"] == check]
    return told


@pytest.mark.parametrize(
    ("given", "state", "words"),
    [
        (({}, ""), "ok", "/apis/jobset.x-k8s.io/v1alpha2 has none: there is nothing of this kind to admit"),
        ((JOBSETS, "patch jobsets"), "warn", "headroom may not patch jobset.x-k8s.io/jobsets"),
        ((JOBSETS, ""), "warn", "the API server has no mutatingadmissionpolicybindings"),
        (
            (JOBSETS | NEW | OTHERS, ""),
            "warn",
            "no MutatingAdmissionPolicy headroom-places is in force, it is not bound",
        ),
        ((JOBSETS | NEW | GONE, ""), "warn", "headroom-places is in force, it is bound and is not there"),
        ((JOBSETS | NEW | EDITED, ""), "warn", "is in force, it is not the one that this version comes with"),
        ((JOBSETS | NEW | BOUND, ""), "ok", "those in queues are admitted"),
    ],
    ids=[
        "not served",
        "a right is missing",
        "an older Kubernetes",
        "bound is another policy",
        "what is bound is gone",
        "what is bound was edited",
        "well",
    ],
)
def test_it_says_whether_jobsets_are_admitted_and_what_is_missing(
    cluster: Plane, tmp_path: Path, given: tuple[dict[str, Any], str], state: str, words: str
) -> None:
    cluster.objects |= given[0]
    cluster.denied.add(given[1])
    told = looked_at(cluster, tmp_path, "JobSet")
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


KUBEFLOW = "/apis/kubeflow.org/v1"
TORCH = {KUBEFLOW: resources("pytorchjobs", "notebooks")}
BOTH = {KUBEFLOW: resources("pytorchjobs", "tfjobs")}


@pytest.mark.parametrize(
    ("given", "state", "words"),
    [
        (({}, ""), "ok", "/apis/kubeflow.org/v1 has none: there is nothing of this kind to admit"),
        ((TORCH, "patch pytorchjobs"), "warn", "headroom may not patch kubeflow.org/pytorchjobs"),
        ((TORCH, "patch tfjobs"), "ok", "those in queues are admitted"),
        ((BOTH, "list tfjobs"), "warn", "may not list kubeflow.org/tfjobs"),
    ],
    ids=["not served", "a right is missing", "of one kind that is not served", "of one kind of two"],
)
def test_it_says_whether_jobs_of_the_training_operator_are_admitted_and_what_is_missing(
    cluster: Plane, tmp_path: Path, given: tuple[dict[str, Any], str], state: str, words: str
) -> None:
    cluster.objects |= given[0]
    cluster.denied.add(given[1])
    told = looked_at(cluster, tmp_path, "PyTorchJob and TFJob")
    assert told["state"] == state
    assert words in told["words"]
    assert (told["remedy"] is None) == (state == "ok")


TRAINER = {"/apis/trainer.kubeflow.org/v1alpha1": resources("trainjobs")}


@pytest.mark.parametrize(
    ("given", "state", "words"),
    [
        (({}, ""), "ok", "/apis/trainer.kubeflow.org/v1alpha1 has none: there is nothing of this kind to admit"),
        (
            (TRAINER, "list clustertrainingruntimes"),
            "warn",
            "list trainer.kubeflow.org/clustertrainingruntimes",
        ),
        (
            (TRAINER | JOBSETS | NEW | MADE, ""),
            "warn",
            "as the Trainer makes JobSets of them: not admitted: no",
        ),
        ((TRAINER | JOBSETS | NEW | BOUND, "patch jobsets"), "warn", "headroom may not patch jobset.x-k8s.io/jobsets"),
        ((TRAINER | JOBSETS | NEW | BOUND, ""), "ok", "those in queues are admitted"),
    ],
    ids=["not served", "a right is missing", "no policy", "JobSets are not", "admitted"],
)
def test_it_says_whether_trainjobs_are_admitted_and_what_is_missing(
    cluster: Plane, tmp_path: Path, given: tuple[dict[str, Any], str], state: str, words: str
) -> None:
    cluster.objects |= given[0]
    cluster.denied.add(given[1])
    told = looked_at(cluster, tmp_path, "TrainJob")
    assert told["state"] == state
    assert words in told["words"]
    assert (told["remedy"] is None) == (state == "ok")


TOLERANT = HpaPreview(
    "h", 21, 20, 20, None, ("TOLERANCE",), "HPA h: …", ("HPA's tolerance of 10 % …",), '{"scaleUp":{}}'
)
WELL = WorkloadStatus("prod/chat", CHAT, age_s=2.0, has=4, getting=0, overload="fits")
SILENT = Problem("chat-0: timeout: no answer", "see its log")
BLIND = (SignalFrame("queue", "unknown", 90.0, blocking=True),)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (WELL, [("ok", "mode Active, fits")]),
        (replace(WELL, overload="unknown"), [("ok", "mode Active, learning")]),
        (replace(WELL, about=replace(CHAT, found=("a", "b"))), [("ok", "2 metrics found, mode Active, fits")]),
        (replace(WELL, signals=BLIND), [("fail", "there are no metrics: replicas stay as they are")]),
        (
            replace(
                WELL,
                signals=BLIND,
                about=replace(CHAT, problems=(SILENT,)),
            ),
            [("fail", "chat-0: timeout: no answer")],
        ),
        (
            replace(WELL, about=replace(CHAT, problems=(SILENT,))),
            [("warn", "chat-0: timeout: no answer")],
        ),
        (
            replace(WELL, about=replace(CHAT, engine="vllm", missing=("vllm:num_requests_waiting",))),
            [("warn", "the pages of engine 'vllm' lack vllm:num_requests_waiting")],
        ),
        (
            replace(WELL, about=replace(CHAT, obstacle="HPA chat scales it", remarks=("a VPA is there",))),
            [("warn", "HPA chat scales it"), ("warn", "a VPA is there")],
        ),
        (replace(WELL, about=replace(CHAT, hpa=TOLERANT)), [("warn", "HPA's tolerance of 10 % …")]),
        (replace(WELL, about=replace(CHAT, hpa=replace(TOLERANT, remarks=()))), [("ok", "mode Active, fits")]),
    ],
    ids=[
        "well",
        "learning",
        "well with names",
        "blind",
        "no page",
        "one page",
        "names missing",
        "aliens",
        "hpa",
        "good hpa",
    ],
)
def test_what_is_wrong_with_a_workload_is_told(row: WorkloadStatus, told: list[tuple[str, str]]) -> None:
    assert [(finding.state.value, finding.words) for finding in of_workload(row)] == told


def test_what_cannot_be_read_is_told_with_its_own_remedy() -> None:
    (finding,) = of_workload(replace(WELL, about=replace(CHAT, problems=(SILENT,))))
    assert finding.remedy == "see its log"


def test_the_remedy_for_an_hpa_that_swallows_is_the_behavior_to_write() -> None:
    (finding,) = of_workload(replace(WELL, about=replace(CHAT, hpa=TOLERANT)))
    assert finding.remedy == f"in the ScaledObject's {WHERE}: {TOLERANT.behavior}"


def test_the_text_has_the_remedy_below_what_is_wrong_and_counts_at_the_end(cluster: Plane) -> None:
    cluster.controller.process = FOLLOWING
    cluster.controller.workloads = {"prod/chat": About("Deployment", "annotation", obstacle="HPA chat scales it")}
    result = run(app, ["doctor", *cluster.options()])
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].startswith("ok    API server")
    at = next(number for number, line in enumerate(lines) if "HPA chat scales it" in line)
    assert lines[at].startswith("warn  prod/chat")
    assert lines[at + 1].strip() == "→ mend that, or pause Headroom on this workload"
    assert lines[-1] == "10 ok, 1 warn, 0 fail"


def job(name: str, suspended: bool, *, owner: str = "", mark: str = "plain", **spec: Any) -> dict[str, Any]:
    meta = {"namespace": "lab", "name": name, "uid": name, "labels": {"headroom.dev/queue": "team", mark: "any"}}
    owners = [{"kind": owner, "name": "above", "uid": "above", "controller": True}] if owner else []
    return {"metadata": meta | {"ownerReferences": owners}, "spec": {"suspend": suspended, **spec}}


def test_pods_behind_the_gate_are_left_with_the_command_that_takes_it_away(cluster: Plane) -> None:
    pods = [
        {"metadata": {"name": name, "namespace": "lab"}, "spec": {"schedulingGates": [{"name": gate}]}}
        for name, gate in (("b", "headroom.dev/admission"), ("a", "headroom.dev/admission"), ("other", "theirs"))
    ]
    cluster.objects |= {"/api/v1/pods": {"items": pods}}
    told = [(row["words"], row["remedy"]) for row in examined(cluster, "--leftovers")[1]]
    change = '{"spec":{"schedulingGates":[{"$patch":"delete","name":"headroom.dev/admission"}]}}'
    assert (
        "2 pods in lab behind the gate headroom.dev/admission: without Headroom nobody lets them in",
        f"kubectl -n lab patch pod a b -p '{change}'",
    ) in told


def test_what_is_left_of_an_installation_is_listed_with_the_command_that_removes_it(cluster: Plane) -> None:
    ours = {"metadata": {"name": "headroom-checkpoint-0-a"}}
    cluster.objects |= installed(lambda spec: None) | {
        "/apis/headroom.dev/v1alpha1/scalingpolicies": {"items": [{"metadata": {"name": "chat"}}]},
        "/apis/karpenter.sh/v1/nodepools": {"items": [{"metadata": {"name": "chat-h100"}}]},
        "/api/v1/namespaces/headroom-slots/pods": {"items": [ours, ours]},
        f"/api/v1/namespaces/{OWN}/configmaps": {"items": [ours]},
        "/apis/batch/v1/jobs": {"items": [job("one", True), job("two", True), job("runs", False)]},
        FREEZE: {"data": {}},
    }
    code, found = examined(cluster, "--leftovers")
    label = "app.kubernetes.io/managed-by=headroom"
    assert code == 0
    assert [(row["words"], row["remedy"]) for row in found] == [
        ("2 jobs in lab that wait in BatchQueues: suspended, and without Headroom nobody starts them",
         "kubectl -n lab patch jobs one two --type=merge -p '{\"spec\":{\"suspend\":false}}'"),
        ("the definition scalingpolicies.headroom.dev and 1 of its objects",
         "kubectl delete crd scalingpolicies.headroom.dev"),
        ("NodePools of warm pools, with their nodes: chat-h100", "kubectl delete nodepool chat-h100"),
        ("2 slots in headroom-slots", f"kubectl -n headroom-slots delete pods -l {label}"),
        (f"1 checkpoints in {OWN}", f"kubectl -n {OWN} delete configmap -l {label}"),
        (f"the configmap {OWN}/headroom-freeze", f"kubectl -n {OWN} delete configmap headroom-freeze"),
        (f"the lease {OWN}/headroom", f"kubectl -n {OWN} delete lease headroom"),
    ]  # fmt: skip
    assert cluster.written == []


def test_work_that_somebody_else_would_start_is_not_listed_for_us_to_start(cluster: Plane) -> None:
    taken = {"kind": "Job", "name": "taken", "uid": "taken", "controller": True}
    cluster.objects |= {
        "/apis/batch/v1/jobs": {"items": [
            job("kueue", True, mark="kueue.x-k8s.io/queue-name"),
            job("dispatched", True, managedBy="kueue.x-k8s.io/multikueue"),
            job("volcano", True, template={"spec": {"schedulerName": "volcano"}}),
            job("part", True, owner="JobSet"),
            job("taken", True),
            job("unreadable", True, parallelism="many"),
            job("over", True) | {"status": {"conditions": [{"type": "Failed", "status": "True"}]}},
        ]},
        "/apis/jobset.x-k8s.io/v1alpha2/jobsets": {"items": [
            job("trainer", True, owner="TrainJob"), job("ours", True),
        ]},
        "/apis/kubeflow.org/v1/pytorchjobs": {"items": [
            job("theirs", True, mark="kueue.x-k8s.io/queue-name"), job("torch", True, runPolicy={"suspend": True}),
        ]},
        "/apis/kueue.x-k8s.io/v1beta1/workloads": {"items": [
            {"metadata": {"namespace": "lab", "name": "job-taken-1f", "ownerReferences": [taken]}},
        ]},
    }  # fmt: skip
    _, found = examined(cluster, "--leftovers")
    assert [row["remedy"] for row in found if "patch" in row["remedy"]] == [
        'kubectl -n lab patch jobsets ours --type=merge -p \'{"spec":{"suspend":false}}\'',
        'kubectl -n lab patch pytorchjobs torch --type=merge -p \'{"spec":{"runPolicy":{"suspend":false}}}\'',
    ]


def test_where_nothing_is_left_that_is_told(cluster: Plane) -> None:
    del cluster.objects[LEASE]
    code, found = examined(cluster, "--leftovers")
    assert (code, rows(found, "ok")) == (0, [("left", "nothing of Headroom is in the cluster")])


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
