"""Samples of other systems' objects: what Headroom makes of each is what its comment and docs/neighbours.md say."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import kubernetes_validate
import msgspec
import pytest

from autoscaler.adapters.kube.batch_jobsets import of_jobset
from autoscaler.adapters.kube.batch_kinds import KINDS
from autoscaler.adapters.kube.batch_objects import Job, JobSet
from autoscaler.adapters.kube.batch_runtimes import TrainJob
from autoscaler.adapters.kube.batch_work import of_job
from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.discovery import Discovery
from autoscaler.adapters.kube.pods import Pod
from autoscaler.adapters.kube.scaling import Hpa, ScalingPolicyObject, Target, Vpa
from autoscaler.api.claims import Block, Claim, Kind
from autoscaler.api.modes import Mode
from autoscaler.app.batch_look import Look
from autoscaler.app.foreign import Foreign
from autoscaler.record.batch import GangState
from autoscaler.runtime.clock import ScaledClock
from tests.api.test_crd import SCHEMA, dropped
from tests.app.batch_plant import BatchPlant
from tests.architecture.test_documents import DOCS, table
from tests.conftest import ROOT

SAMPLES: Final = sorted((ROOT / "config/samples").glob("beside-*.yaml"))
DEPLOYMENT: Final = Kind("apps", "v1", "deployments", "Deployment")
BUILT_IN: Final = {"Job", "HorizontalPodAutoscaler"}
"""Kinds of Kubernetes' own, whose fields it publishes."""


def unlabelled(job: dict[str, Any]) -> None:
    del job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]


def unscheduled(job: dict[str, Any]) -> None:
    del job["spec"]["template"]["spec"]["schedulerName"]


JOBS: Final[dict[str, tuple[str, Callable[[dict[str, Any]], None]]]] = {
    "kueue": ("Kueue", unlabelled),
    "volcano": ("Volcano", unscheduled),
    "kai": ("KAI", unscheduled),
    "yunikorn": ("YuniKorn", unscheduled),
    "runai": ("Run:ai", unscheduled),
}
"""Sample -> who manages its Job, and how the one word goes that says so."""


def documents(name: str) -> list[dict[str, Any]]:
    text = (ROOT / f"config/samples/{name}.yaml").read_text()
    return [msgspec.yaml.decode(each) for each in text.split("\n---\n")]


def only(name: str, kind: str) -> dict[str, Any]:
    (found,) = (each for each in documents(name) if each["kind"] == kind)
    return found


def claimed(known: Discovery, key: str) -> Claim:
    claim = known.resolve(key).claim
    assert claim is not None
    return claim


def policy(found: dict[str, Any], **spec: Any) -> ScalingPolicyObject:
    """A policy as the server has it, with some fields changed."""
    return msgspec.json.decode(json.dumps({**found, "spec": found["spec"] | spec}), type=ScalingPolicyObject)


def queued(name: str) -> dict[str, Any]:
    """The Job of a sample as it waits in the namespace `ns`, with the label of a queue of ours besides."""
    job = only(f"beside-{name}", "Job")
    meta = job["metadata"] = {"labels": {}} | job["metadata"] | {"namespace": "ns", "uid": "u", "generation": 1}
    meta["labels"]["headroom.dev/queue"] = "team"
    job["spec"]["suspend"] = True
    job["spec"]["template"]["spec"]["priorityClassName"] = "batch"
    return job


def heard(plant: BatchPlant, job: dict[str, Any], version: str) -> str:
    """The server shows a Job; the gang's name."""
    job["metadata"]["resourceVersion"] = version
    plant.cluster._kinds["Job"]._cache.put(msgspec.convert(job, Job, strict=False))
    plant.look()
    return f"job/ns/{job['metadata']['name']}"


@pytest.fixture
def _schemas_are_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kubernetes_validate.utils.schema_contents", cache(kubernetes_validate.utils.schema_contents))
        yield


@pytest.mark.usefixtures("_schemas_are_read_once")
def test_objects_of_kubernetes_and_of_ours_have_no_field_that_nobody_knows() -> None:
    seen = set()
    for each in (each for path in SAMPLES for each in documents(path.stem)):
        seen.add(each["kind"])
        if each["kind"] in BUILT_IN:
            kubernetes_validate.validate(each, "1.37", strict=True)
        if each["kind"] == "ScalingPolicy":
            assert list(dropped(each["spec"], SCHEMA["properties"]["spec"])) == []
    assert seen == BUILT_IN | {
        "ScalingPolicy", "VerticalPodAutoscaler", "PodGroup", "InferenceService", "TrainJob",
    }  # fmt: skip


def test_each_is_in_both_tables_and_every_system_has_one_or_a_reason() -> None:
    rows, index = table(DOCS / "neighbours.md"), (ROOT / "config/README.md").read_text()
    for path in SAMPLES:
        assert [row[0] for row in rows if f"`config/samples/{path.name}`" in row[-1]], f"{path.name} is in no row"
        assert f"(samples/{path.name})" in index, f"{path.name} is not in config/README.md"
    assert [row[0] for row in rows if not row[-1]] == []


def test_a_vpa_that_only_recommends_is_not_even_remarked_upon_and_one_that_resizes_is() -> None:
    known = Discovery((DEPLOYMENT,))
    (deployment,), (vpa,) = documents("deployment"), documents("beside-vpa")
    known.target(DEPLOYMENT, "default/chat-8b", msgspec.convert(deployment, Target))
    known.other("default/chat-8b", msgspec.convert(vpa, Vpa), "Vpa")
    claim = claimed(known, "default/chat-8b")
    assert (claim.spec.mode, claim.obstacle, claim.remarks) == (Mode.ACTIVE, None, ())
    vpa["spec"]["updatePolicy"]["updateMode"] = "Initial"
    known.other("default/chat-8b", msgspec.convert(vpa, Vpa), "Vpa")
    claim = claimed(known, "default/chat-8b")
    assert claim.obstacle is None
    assert "what one replica carries may change" in claim.remarks[0]


def test_beside_an_hpa_it_decides_within_the_same_bounds_and_acts_once_the_hpa_is_gone_and_never_before() -> None:
    known, key = Discovery((DEPLOYMENT,)), "default/chat-13b"
    meta = {"name": "chat-13b", "namespace": "default"}
    known.target(DEPLOYMENT, key, msgspec.convert({"metadata": meta}, Target))
    hpa = msgspec.convert(only("beside-hpa", "HorizontalPodAutoscaler"), Hpa)
    known.other(key, hpa, "Hpa")
    ours = only("beside-hpa", "ScalingPolicy")
    known.policy(key, policy(ours))
    claim = claimed(known, key)
    assert claim.spec.mode is Mode.SHADOW
    assert (claim.spec.min_replicas, claim.spec.max_replicas) == (hpa.spec.min_replicas, hpa.spec.max_replicas)
    known.policy(key, policy(ours, mode="Active"))
    obstacle = claimed(known, key).obstacle
    assert obstacle is not None
    assert (obstacle.block, "HorizontalPodAutoscaler chat-13b" in obstacle.message) == (Block.HPA, True)
    known.other(key, None, "Hpa")
    assert claimed(known, key).obstacle is None


@pytest.mark.parametrize("mode", ["Shadow", "Active"])
def test_what_kserve_makes_of_its_sample_is_decided_on_and_left_to_kserve(mode: str) -> None:
    """KServe names the Deployment `NAME-predictor` and controls it, whatever the class of its autoscaler."""
    known, key = Discovery((DEPLOYMENT,)), "default/qwen-predictor"
    service = only("beside-kserve", "InferenceService")
    owner = {
        "apiVersion": service["apiVersion"], "kind": service["kind"], "name": service["metadata"]["name"], "uid": "i",
        "controller": True,
    }  # fmt: skip
    meta = {"name": f"{owner['name']}-predictor", "namespace": "default", "ownerReferences": [owner]}
    known.target(DEPLOYMENT, key, msgspec.convert({"metadata": meta}, Target))
    known.policy("default/qwen", policy(only("beside-kserve", "ScalingPolicy"), mode=mode))
    claim = claimed(known, key)
    assert (claim.spec.mode, claim.spec.metrics_port) == (Mode(mode), 8080)
    assert claim.obstacle is not None
    assert claim.obstacle.block is Block.OWNER
    assert "InferenceService qwen owns it and sets its replicas" in claim.obstacle.message


@pytest.mark.parametrize("name", JOBS)
def test_a_job_of_anothers_is_read_as_that_ones_and_carries_nothing_of_ours(name: str) -> None:
    job = only(f"beside-{name}", "Job")
    assert "headroom.dev" not in json.dumps(job)
    work = of_job(msgspec.convert(job, Job), 0.0)
    assert work is not None
    assert (work.manager, work.says) == (JOBS[name][0], None)


@pytest.mark.looptime
@pytest.mark.parametrize("name", JOBS)
async def test_it_waits_for_its_own_manager_where_it_would_fit_and_one_word_in_it_is_what_says_so(name: str) -> None:
    manager, take_out = JOBS[name]
    plant, job = BatchPlant({f"n{at}": 8 for at in range(4)}), queued(name)
    gang = heard(plant, job, "1")
    assert (plant.due(), plant.stop()) == ([], [])
    told = Look(plant.books, plant.tree, plant.now_s).gang(gang)
    assert (told.state, told.detail) == (GangState.FOREIGN, f"{manager} manages it")
    take_out(job)
    heard(plant, job, "2")
    assert plant.due() == [job["metadata"]["name"]], "without it the Job is ours to start"


def test_the_group_that_volcanos_pods_name_is_the_samples_and_as_wide_as_its_job() -> None:
    group, job = only("beside-volcano", "PodGroup"), only("beside-volcano", "Job")
    named = job["spec"]["template"]["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
    assert (named, job["metadata"]["namespace"]) == (group["metadata"]["name"], group["metadata"]["namespace"])
    assert group["spec"]["minMember"] == job["spec"]["parallelism"]


def test_the_group_of_yunikorns_sample_asks_for_what_its_pods_ask_for() -> None:
    job = only("beside-yunikorn", "Job")
    template = job["spec"]["template"]
    notes = template["metadata"]["annotations"]
    (group,) = json.loads(notes["yunikorn.apache.org/task-groups"])
    assert group["name"] == notes["yunikorn.apache.org/task-group-name"]
    assert group["minMember"] == job["spec"]["parallelism"]
    assert group["minResource"] == template["spec"]["containers"][0]["resources"]["requests"]


@pytest.mark.parametrize("labels", [{}, {"headroom.dev/queue": "team"}], ids=["as it is", "with a queue's label"])
def test_what_kubeflow_makes_of_its_sample_is_a_part_of_it_and_no_gang(labels: dict[str, str]) -> None:
    """Trainer makes a JobSet of the same name, controlled by the TrainJob, which is in no queue itself."""
    (train,) = documents("beside-kubeflow")
    assert KINDS[train["kind"]].read(msgspec.convert(train, TrainJob, strict=False), 0.0) is None, "it is in no queue"
    meta = {"name": train["metadata"]["name"], "namespace": "lab", "labels": labels}
    owner = {"apiVersion": train["apiVersion"], "kind": train["kind"], "name": meta["name"], "uid": "t"}
    pods = {"template": {"spec": {"containers": [{"resources": train["spec"]["trainer"]["resourcesPerNode"]}]}}}
    job = {"name": "node", "template": {"spec": pods | {"parallelism": train["spec"]["trainer"]["numNodes"]}}}
    made = {"metadata": meta, "spec": {"replicatedJobs": [job]}}
    alone = of_jobset(msgspec.convert(made, JobSet), 0.0)
    assert (alone is None) == (not labels), "nobody's, it would be ours by its label"
    made["metadata"] = meta | {"ownerReferences": [owner | {"controller": True}]}
    assert of_jobset(msgspec.convert(made, JobSet), 0.0) is None


@pytest.mark.looptime
@pytest.mark.parametrize("name", [*JOBS, "kubeflow"])
async def test_the_gpus_of_its_pods_are_not_free_to_those_that_are_scaled(name: str) -> None:
    foreign = Foreign(
        gpu_resources=("nvidia.com/gpu",), driven=dict, tell=lambda _: None, clock=ScaledClock(), slots="slots"
    )
    found = documents(f"beside-{name}")[-1]
    if name == "kubeflow":
        trainer = found["spec"]["trainer"]
        pods, spec = trainer["numNodes"], {"containers": [{"resources": trainer["resourcesPerNode"]}]}
    else:
        pods, spec = found["spec"]["parallelism"], found["spec"]["template"]["spec"]
    namespace = found["metadata"]["namespace"]
    for at in range(pods):
        pod = {"metadata": {"name": f"p-{at}", "namespace": namespace}, "spec": spec | {"nodeName": f"n{at}"}}
        foreign.on_pod(Change(f"{namespace}/p-{at}", None, msgspec.convert(pod, Pod)))
    assert foreign.gpus() == {namespace: 32}
