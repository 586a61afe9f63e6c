"""The custom resource definition: what is committed is what the models say, and a server can take it.

That a real API server takes it, and what it says of faulty specs, is for tests/cluster.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoscaler.api.annotations import read_annotations
from autoscaler.api.batch_queue import read_batch_queue
from autoscaler.api.batch_tree import QueueSeen, tree_of
from autoscaler.api.batch_work import read_work
from autoscaler.api.crd import BATCH_QUEUE, GROUP, KIND, RESOURCES, VERSION, WARM_POOL, Resource, definition, manifest
from autoscaler.api.scaling_policy import Engine, read_scaling_policy
from autoscaler.api.shapes import Shape
from autoscaler.api.status import ConditionType
from autoscaler.api.warm_pool import read_warm_pool
from tests.api import pools, queues
from tests.api.resources import SOUND
from tests.conftest import ROOT

SAMPLES = ROOT / "config/samples"
VERSION_FORM: dict[str, Any] = definition()["spec"]["versions"][0]
SCHEMA: dict[str, Any] = VERSION_FORM["schema"]["openAPIV3Schema"]


def forms(form: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every form in a schema with its path."""
    yield path, form
    for name, inner in form.get("properties", {}).items():
        yield from forms(inner, f"{path}.{name}")
    if "items" in form:
        yield from forms(form["items"], f"{path}[]")


def schema_of(resource: Resource) -> dict[str, Any]:
    schema: dict[str, Any] = definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


FORMS = dict(forms(SCHEMA))
POOL_FORMS = dict(forms(schema_of(WARM_POOL)))
ALL_FORMS = {
    f"{kind}{path}": (path, form) for kind, resource in RESOURCES.items() for path, form in forms(schema_of(resource))
}


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=RESOURCES)
def test_the_committed_definition_is_the_generated_one(resource: Resource) -> None:
    committed = ROOT / "config/crd" / f"{GROUP}_{resource.plural}.yaml"
    command = f"python -m autoscaler.api.crd {resource.kind} > {committed.relative_to(ROOT)}"
    assert committed.read_text() == manifest(resource), f"run: {command}"


@pytest.mark.parametrize(
    ("argument", "resource"), [([], RESOURCES[KIND]), (["WarmPool"], WARM_POOL), (["BatchQueue"], BATCH_QUEUE)]
)
def test_the_generator_is_a_command(argument: list[str], resource: Resource) -> None:
    command = [sys.executable, "-m", "autoscaler.api.crd", *argument]
    assert subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout.decode() == manifest(resource)


def test_warm_pools_are_of_the_cluster() -> None:
    spec = definition(WARM_POOL)["spec"]
    assert (spec["scope"], spec["names"]["shortNames"]) == ("Cluster", ["hwp"])
    columns = {column["name"]: column["jsonPath"] for column in spec["versions"][0]["additionalPrinterColumns"]}
    del columns["Age"]
    assert set(columns.values()) <= set(POOL_FORMS)


def test_batch_queues_are_of_the_cluster() -> None:
    spec = definition(BATCH_QUEUE)["spec"]
    assert (spec["scope"], spec["names"]["shortNames"]) == ("Cluster", ["hbq"])
    columns = {column["name"]: column["jsonPath"] for column in spec["versions"][0]["additionalPrinterColumns"]}
    del columns["Age"], columns["Ready"]
    assert set(columns.values()) <= {path for path, _ in forms(schema_of(BATCH_QUEUE))}


def test_it_is_namespaced_with_a_short_name_a_category_and_a_status_of_its_own() -> None:
    spec = definition()["spec"]
    assert (spec["scope"], spec["group"], VERSION_FORM["name"]) == ("Namespaced", "headroom.dev", "v1alpha1")
    assert (spec["names"]["shortNames"], spec["names"]["categories"]) == (["hsp"], ["headroom"])
    assert VERSION_FORM["subresources"] == {"status": {}}


def test_every_printed_column_but_the_age_shows_a_field_that_exists() -> None:
    columns = {column["name"]: column["jsonPath"] for column in VERSION_FORM["additionalPrinterColumns"]}
    assert list(columns) == ["Target", "Served", "Min", "Max", "Desired", "Ready", "Mode", "Reason", "Age"]
    del columns["Age"]
    assert columns["Served"] == '.status.conditions[?(@.type=="Ready")].reason'
    assert {path.replace('?(@.type=="Ready")', "") for path in columns.values()} <= set(FORMS)


STRUCTURAL = {
    "type", "description", "properties", "required", "items", "enum", "format", "pattern", "minLength", "maxLength",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "default",
    "x-kubernetes-validations", "x-kubernetes-map-type", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
}  # fmt: skip


@pytest.mark.parametrize(("path", "form"), ALL_FORMS.values(), ids=ALL_FORMS)
def test_every_part_is_structural_bounded_and_explained(path: str, form: dict[str, Any]) -> None:
    assert set(form) <= STRUCTURAL
    assert "type" in form
    assert isinstance(form.get("exclusiveMinimum", True), bool)
    assert set(form.get("required", ())) <= set(form.get("properties", ()))
    if path not in {".apiVersion", ".kind", ".metadata"}:
        if not path.endswith("[]") or form["type"] == "object":
            assert len(form["description"]) > 8
        assert "``" not in form.get("description", "")
    if path.startswith(".spec") and form["type"] == "string":
        assert form.keys() & {"enum", "maxLength"} or form.get("format") == "date-time"
    if form["type"] == "array":
        assert "maxItems" in form
    if form["type"] == "object":
        assert "default" not in form, "a stored default objective would be merged with the one that is given later"


def test_a_fraction_that_bounds_a_number_is_a_rule_too() -> None:
    # The server compares a whole number with the whole part of a bound only: 0 would be at least 0.2.
    (rule,) = FORMS[".spec.tickS"]["x-kubernetes-validations"]
    assert rule == {"rule": "self >= 0.2 && self <= 300.0", "message": "it must be a number, 0.2..300 s"}
    (rule,) = FORMS[".spec.targetRatio"]["x-kubernetes-validations"]
    assert rule["rule"] == "self >= 0.5 && self < 1.0"


def test_every_rule_says_what_to_do() -> None:
    rules = [rule for form in FORMS.values() for rule in form.get("x-kubernetes-validations", ())]
    assert len(rules) >= 12
    assert all(len(rule["message"]) > 20 for rule in rules)


def test_every_rule_of_a_pool_says_what_to_do_and_names_fields_that_exist() -> None:
    rules = [rule for form in POOL_FORMS.values() for rule in form.get("x-kubernetes-validations", ())]
    assert len(rules) >= 8
    assert all(len(rule["message"]) > 20 for rule in rules)
    known = {path.rpartition(".")[2].removesuffix("[]") for path in POOL_FORMS}
    spoken = {word for rule in rules for word in re.findall(r"(?:self|t|m|z)\.([a-z]\w+)(?!\w*\()", rule["rule"])}
    assert spoken - known == set()


def test_descriptions_tell_the_default() -> None:
    assert FORMS[".spec.maxReplicas"]["description"].endswith("Default: 100.")
    assert FORMS[".spec.engine"]["description"].endswith("Default: vllm.")
    assert "Default" not in FORMS[".spec.gateway"]["description"]


def test_closed_sets_are_the_enums() -> None:
    assert FORMS[".spec.engine"]["enum"] == [engine.value for engine in Engine]
    described = FORMS[".status.conditions"]["description"]
    assert all(kind.value in described for kind in ConditionType)


@pytest.mark.parametrize("spec", SOUND.values(), ids=SOUND)
def test_a_sound_spec_has_no_field_that_the_server_would_drop(spec: dict[str, Any]) -> None:
    assert list(dropped(spec, SCHEMA["properties"]["spec"])) == []


def dropped(value: Any, form: dict[str, Any], path: str = "spec") -> Iterator[str]:
    """Paths of fields that the schema does not have."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in form["properties"]:
                yield f"{path}.{name}"
            else:
                yield from dropped(item, form["properties"][name], f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from dropped(item, form["items"], f"{path}[]")


def sample(name: str) -> Any:
    return msgspec.yaml.decode(Path(SAMPLES / name).read_bytes())


def samples(name: str) -> Iterator[Any]:
    """The manifests of a sample with several."""
    for text in Path(SAMPLES / name).read_text().split("\n---\n"):
        yield msgspec.yaml.decode(text)


def test_the_sample_deployment_asks_for_scaling() -> None:
    manifest = sample("deployment.yaml")
    policy = read_annotations(manifest["metadata"]["annotations"])
    assert policy is not None
    assert (policy.max_replicas, policy.slo.wait_s) == (12, 5)
    assert "replicas" not in manifest["spec"], "applying the file again would set the replicas back"


def test_the_sample_policy_is_one() -> None:
    manifest = sample("scalingpolicy.yaml")
    assert (manifest["apiVersion"], manifest["kind"]) == (f"{GROUP}/{VERSION}", KIND)
    assert list(dropped(manifest["spec"], SCHEMA["properties"]["spec"])) == []
    policy = read_scaling_policy(json.dumps(manifest["spec"]).encode())
    assert policy.gateway == "main"
    assert policy.events[0].floor == 16


@pytest.mark.parametrize("spec", pools.SOUND.values(), ids=pools.SOUND)
def test_a_sound_pool_has_no_field_that_the_server_would_drop(spec: dict[str, Any]) -> None:
    assert list(dropped(spec, schema_of(WARM_POOL)["properties"]["spec"])) == []


def test_the_sample_pool_is_one() -> None:
    manifest = sample("warmpool.yaml")
    assert (manifest["apiVersion"], manifest["kind"]) == (f"{GROUP}/{VERSION}", "WarmPool")
    assert list(dropped(manifest["spec"], schema_of(WARM_POOL)["properties"]["spec"])) == []
    pool = read_warm_pool(json.dumps(manifest["spec"]).encode())
    assert [tier.name for tier in pool.tiers] == ["reserved", "on-demand"]
    assert pool.calendar[0].slots == 8


@pytest.mark.parametrize("spec", queues.SOUND.values(), ids=queues.SOUND)
def test_a_sound_queue_has_no_field_that_the_server_would_drop(spec: dict[str, Any]) -> None:
    assert list(dropped(spec, schema_of(BATCH_QUEUE)["properties"]["spec"])) == []


def test_the_sample_queues_are_a_tree_that_the_sample_job_may_use() -> None:
    manifests = list(samples("batchqueue.yaml"))
    assert {(one["apiVersion"], one["kind"]) for one in manifests} == {(f"{GROUP}/{VERSION}", "BatchQueue")}
    for one in manifests:
        assert list(dropped(one["spec"], schema_of(BATCH_QUEUE)["properties"]["spec"])) == []
    seen = {one["metadata"]["name"]: QueueSeen(read_batch_queue(json.dumps(one["spec"]).encode())) for one in manifests}
    tree = tree_of(seen, {"h100": Shape(sku="h100")})
    assert tree.findings == ()
    job, priority = samples("batch-job.yaml")
    says = read_work(job["metadata"]["labels"], job["metadata"]["annotations"], 0.0)
    assert says is not None
    assert (says.findings, says.expected_s, says.notice_s) == ((), 4 * 3600, 90)
    assert tree.admits(job["metadata"]["namespace"], says.queue)
    assert job["spec"]["suspend"]
    assert priority["value"] < 0
    assert priority["metadata"]["name"] == job["spec"]["template"]["spec"]["priorityClassName"]
