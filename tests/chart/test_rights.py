"""The chart grants what the controller asks for, as config/rbac does, and not a verb more."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from autoscaler.adapters.kube.batch_holds import HOLDS
from autoscaler.adapters.web.door import named
from autoscaler.adapters.web.hosts import Hosts
from autoscaler.adapters.web.live import live_application
from autoscaler.api.claims import Kind
from autoscaler.cli.rights import Own, jobset_rights, pod_rights, rights, training_rights, trainjob_rights
from autoscaler.settings.model import Settings
from tests.chart.generate import ROOT
from tests.chart.rendering import NAMESPACE, RENDERINGS, objects, of_kind, only, render
from tests.web.test_live import Controller

Granted = tuple[str, str, str, str | None, str | None]
"""Group, resource, verb, namespace (None: everywhere), name (None: any)."""

KEDA: Final = {"enabled": True}
OTHER: Final = {"group": "serving.example.com", "version": "v1", "resource": "engines", "kind": "Engine"}
POLICY: Final = ROOT / "config/rbac/jobsets/places-policy.yaml"
GATES: Final = ROOT / "config/rbac/pods/gates-policy.yaml"
LEADER: Final[set[Granted]] = {("", "pods", verb, NAMESPACE, None) for verb in ("list", "patch")}


def granted(found: list[dict[str, Any]]) -> set[Granted]:
    """Every right that is bound to an account, taken apart. AssertionError for a role that nobody has."""
    bound = {(one["kind"], one["metadata"].get("namespace"), one["roleRef"]["name"]) for one in found
             if one["kind"].endswith("RoleBinding")}  # fmt: skip
    rows: set[Granted] = set()
    for role in (*of_kind(found, "Role"), *of_kind(found, "ClusterRole")):
        namespace = role["metadata"].get("namespace")
        assert (f"{role['kind']}Binding", namespace, role["metadata"]["name"]) in bound
        rows |= {(*one, namespace, name) for rule in role["rules"] for *one, name in taken_apart(rule)}
    return rows


def taken_apart(rule: dict[str, Any]) -> Iterator[tuple[str, str, str, str | None]]:
    """Every group, resource, verb and name of one rule."""
    for path in rule.get("nonResourceURLs", ()):
        for verb in rule["verbs"]:
            yield "", path, verb, None
    for group in rule.get("apiGroups", ()):
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", (None,)):
                    yield group, resource, verb, name


def asked(**given: Any) -> set[Granted]:
    """What the controller says that it needs under these settings."""
    settings = Settings(namespace=NAMESPACE, **given)
    kinds = [Kind(k.group, k.version, k.resource, k.kind) for k in settings.kinds]
    own = Own(settings.namespace, settings.lease.name, settings.freeze_config_map)
    slots = settings.warm_pools.namespace if settings.warm_pools.enabled else None
    needed = rights(
        kinds, settings.watch_namespaces, own, deletion_cost=settings.deletion_cost, slots=slots,
        batch=settings.batch.enabled, authorize=settings.http.authorize,
    )  # fmt: skip
    return {(one.group, one.resource, one.verb, one.namespace, one.name) for one in needed}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"deletion_cost": True},
        {"watch_namespaces": ["team-a", "team-b"]},
        {"watch_namespaces": [NAMESPACE], "deletion_cost": True},
        {"warm_pools": {"enabled": True, "namespace": "slots"}, "watch_namespaces": ["team-a"]},
        {"batch": {"enabled": True}, "watch_namespaces": ["team-a"]},
        {"kinds": [OTHER], "lease": {"name": "other"}, "freeze_config_map": "stop"},
    ],
    ids=[
        "everywhere",
        "with marks on pods",
        "in two namespaces",
        "in its own",
        "with warm pools",
        "with batch admission",
        "other kinds and names",
    ],
)
def test_the_chart_grants_what_the_controller_needs(settings: dict[str, Any]) -> None:
    assert granted(render({"settings": settings | {"keda": KEDA}})) == asked(**settings)


SECURE: Final = {"certificates": {"http": True}, "settings": {"http": {"authorize": True}}}
TLS: Final = {"cert_file": "/tls.crt", "key_file": "/tls.key"}
READ: Final = {
    "/metrics", "/headroom/", "/headroom/events", "/headroom/api/status", "/headroom/api/explain/*",
    "/headroom/api/past", "/headroom/api/pools", "/headroom/api/pools/*", "/headroom/api/batch",
    "/headroom/api/batch/*", "/headroom/api/overload", "/headroom/api/overload/*",
}  # fmt: skip
"""What is served, but for the probes, which take no right, and what only the other replica asks for."""


def test_who_asks_over_http_is_looked_up_by_rights_of_its_own() -> None:
    found = render(SECURE)
    besides = granted(found) - granted(render())
    served = {("", path, "get", None, None) for path in (*READ, "/headroom/api/snapshot")}
    assert besides == served | (asked(http={"authorize": True, "tls": TLS}) - asked())
    paths = {role["metadata"]["name"]: {path for rule in role["rules"] for path in rule.get("nonResourceURLs", ())}
             for role in of_kind(found, "ClusterRole")}  # fmt: skip
    assert (paths["headroom-reader"], paths["headroom-http"]) == (READ, {"/headroom/api/snapshot"})


def test_readers_may_read_every_path_that_is_served_for_people() -> None:
    controller = Controller()
    app = live_application(controller.facts(), controller.hub, Hosts())
    served = {named(one.canonical) for one in app.router.resources() if one.canonical not in {"/healthz", "/readyz"}}
    open_to = {path: {one for one in READ if path == one or (one[-1] == "*" and path.startswith(one[:-1]))}
               for path in served}  # fmt: skip
    assert [path for path, rules in open_to.items() if not rules] == ["/headroom/api/snapshot"]
    assert set[str]().union(*open_to.values()) == READ, "and there is no rule that opens nothing"


def test_readers_are_an_account_that_may_do_nothing_else_and_those_that_are_named() -> None:
    more = {"readers": [{"namespace": "monitoring", "name": "prometheus-k8s"}]}
    found = render(SECURE | {"rbac": more})
    subjects = {
        (one["roleRef"]["name"], subject["namespace"], subject["name"])
        for one in found if one["kind"].endswith("RoleBinding") for subject in one["subjects"]
    }  # fmt: skip
    reading = {(role, *who) for role, *who in subjects if tuple(who) != (NAMESPACE, "headroom")}
    assert reading == {
        ("headroom-reader", NAMESPACE, "headroom-reader"), ("headroom-reader", "monitoring", "prometheus-k8s"),
    }  # fmt: skip
    (named,) = [one for one in of_kind(found, "ServiceAccount") if one["metadata"]["name"] == "headroom-reader"]
    assert named["automountServiceAccountToken"] is False


def test_the_leaders_label_is_a_right_only_where_keda_asks() -> None:
    assert granted(render()) == asked() - LEADER


def test_it_grants_what_the_projects_own_manifests_grant() -> None:
    def applied(*folders: str) -> set[Granted]:
        files = [path for folder in folders for path in sorted((ROOT / "config/rbac" / folder).glob("*.yaml"))]
        return granted([one for path in files for one in objects(path.read_text())])

    assert granted(render({"settings": {"keda": KEDA}})) == applied(".")
    settings = {"keda": KEDA, "deletion_cost": True, "warm_pools": {"enabled": True}, "batch": {"enabled": True}}
    assert granted(render({"settings": settings})) == applied(".", "optional", "warm-pools", "batch")
    for value, folder in (("jobSets", "jobsets"), ("trainingJobs", "training-jobs")):
        more = render({"settings": settings, "rbac": {value: True}})
        assert granted(more) == applied(".", "optional", "warm-pools", "batch", folder)
    trainer = render({"settings": settings, "rbac": {"jobSets": True, "trainJobs": True}})
    assert granted(trainer) == applied(".", "optional", "warm-pools", "batch", "jobsets", "train-jobs")
    secure = {"settings": {"keda": KEDA, "http": {"authorize": True}}, "certificates": {"http": True}}
    assert granted(render(secure)) == applied(".", "http")


def test_jobsets_take_rights_of_their_own_and_the_policy_that_holds_their_pods() -> None:
    settings = {"batch": {"enabled": True}}
    without, found = render({"settings": settings}), render({"settings": settings, "rbac": {"jobSets": True}})
    besides = {(one.group, one.resource, one.verb, None, None) for one in jobset_rights([])}
    assert granted(found) - granted(without) == besides
    kinds = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    (applied,) = [one for one in objects(POLICY.read_text()) if one["kind"] == kinds[0]]
    assert [only(found, kind)["metadata"]["name"] for kind in kinds] == [HOLDS] * 2
    assert only(found, kinds[0])["spec"] == applied["spec"]
    assert [of_kind(without, kind) for kind in kinds] == [[], []]
    watching = granted(render({"settings": settings, "rbac": {"jobSets": True, "scaling": False}}))
    assert ("jobset.x-k8s.io", "jobsets", "patch", None, None) not in watching


def test_trainjobs_take_rights_of_their_own_beside_those_of_jobsets() -> None:
    settings = {"batch": {"enabled": True}}
    rights = [{"jobSets": True, "trainJobs": given} for given in (False, True)]
    without, found = (granted(render({"settings": settings, "rbac": each})) for each in rights)
    assert found - without == {(one.group, one.resource, one.verb, None, None) for one in trainjob_rights([])}
    watching = granted(render({"settings": settings, "rbac": {"jobSets": True, "trainJobs": True, "scaling": False}}))
    assert {row[2] for row in watching if row[0] == "trainer.kubeflow.org"} == {"list", "watch"}


def test_jobs_of_the_training_operator_take_rights_of_their_own() -> None:
    settings = {"batch": {"enabled": True}}
    without, found = render({"settings": settings}), render({"settings": settings, "rbac": {"trainingJobs": True}})
    besides = {(one.group, one.resource, one.verb, None, None) for one in training_rights([])}
    assert granted(found) - granted(without) == besides
    assert of_kind(found, "MutatingAdmissionPolicy") == []
    watching = granted(render({"settings": settings, "rbac": {"trainingJobs": True, "scaling": False}}))
    assert {row[2] for row in watching if row[0] == "kubeflow.org"} == {"list", "watch"}


def test_pods_are_let_in_in_the_namespaces_that_are_named_alone_and_a_policy_narrows_the_right() -> None:
    given = {"settings": {"batch": {"enabled": True}}, "rbac": {"podNamespaces": ["lab", "vision"]}}
    without, found = render({"settings": given["settings"]}), render(given)
    besides = {(one.group, one.resource, one.verb, one.namespace, None) for one in pod_rights(["lab", "vision"])}
    assert besides == {("", "pods", "patch", each, None) for each in ("lab", "vision")}
    assert granted(found) - granted(without) == besides
    (applied,) = [one for one in objects(GATES.read_text()) if one["kind"] == "ValidatingAdmissionPolicy"]
    spec = only(found, "ValidatingAdmissionPolicy")["spec"]
    (condition,) = spec["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == 'system:serviceaccount:{NAMESPACE}:headroom'"
    assert spec | {"matchConditions": []} == applied["spec"] | {"matchConditions": []}
    assert only(found, "ValidatingAdmissionPolicyBinding")["spec"]["validationActions"] == ["Deny"]
    assert of_kind(without, "ValidatingAdmissionPolicy") == []
    rbac = {"podNamespaces": ["lab"], "scaling": False}
    assert granted(render({"settings": given["settings"], "rbac": rbac})) & besides == set()


def test_a_second_release_takes_no_name_of_the_whole_cluster_from_the_first_and_narrows_its_own_account() -> None:
    """But for the policy of JobSets, which the controller knows by its name, and the definitions."""
    values = {
        "crds": {"install": False}, "certificates": {"http": True}, "rbac": {"podNamespaces": ["lab"]},
        "settings": {"batch": {"enabled": True}, "http": {"authorize": True}, "keda": KEDA},
    }  # fmt: skip
    first, second = (render(values, release=release) for release in ("headroom", "lab"))
    taken = [{(one["kind"], one["metadata"]["name"]) for one in found if "namespace" not in one["metadata"]}
             for found in (first, second)]  # fmt: skip
    assert ("ValidatingAdmissionPolicy", "headroom-gates") in taken[0]
    assert ("ValidatingAdmissionPolicy", "lab-headroom-gates") in taken[1]
    assert taken[0] & taken[1] == set()
    for found, name in ((first, "headroom"), (second, "lab-headroom")):
        policy = only(found, "ValidatingAdmissionPolicy")
        assert only(found, "ValidatingAdmissionPolicyBinding")["spec"]["policyName"] == policy["metadata"]["name"]
        (condition,) = policy["spec"]["matchConditions"]
        assert condition["expression"].endswith(f"== 'system:serviceaccount:{NAMESPACE}:{name}'")


def test_the_projects_own_role_lets_pods_in_in_whatever_namespace_it_is_applied_to() -> None:
    role, binding = objects(GATES.with_name("role.yaml").read_text())
    assert "namespace" not in role["metadata"] | binding["metadata"]
    assert [row for rule in role["rules"] for row in taken_apart(rule)] == [("", "pods", "patch", None)]
    assert [(one.group, one.resource, one.verb) for one in pod_rights(["lab"])] == [("", "pods", "patch")]


def test_without_scaling_no_count_can_be_changed() -> None:
    everything, without = granted(render()), granted(render({"rbac": {"scaling": False}}))
    gone = everything - without
    assert gone == {row for row in everything if row[1].endswith("/scale")}
    assert {verb for _, _, verb, namespace, _ in without if namespace is None} == {"list", "watch", "patch", "create"}
    changes = {resource for _, resource, verb, namespace, _ in without if namespace is None and verb == "patch"}
    assert changes == {"scalingpolicies/status", "events"}


def test_without_scaling_no_job_can_be_changed() -> None:
    settings = {"batch": {"enabled": True}}
    gone = granted(render({"settings": settings})) - granted(render({"settings": settings, "rbac": {"scaling": False}}))
    assert ("batch", "jobs", "patch", None, None) in gone
    assert {row[1] for row in gone if row[0] == "batch"} == {"jobs"}


@pytest.mark.parametrize(
    ("group", "resources", "rbac"),
    [
        ("batch", {"jobs"}, {}),
        ("batch", {"jobs"}, {"jobSets": True, "trainingJobs": True}),
        ("jobset.x-k8s.io", {"jobsets"}, {"jobSets": True}),
        ("trainer.kubeflow.org", {"trainjobs"}, {"jobSets": True, "trainJobs": True}),
        ("kubeflow.org", {"pytorchjobs", "tfjobs"}, {"trainingJobs": True}),
    ],
    ids=["Jobs", "Jobs beside others", "JobSets", "TrainJobs", "the training operator's"],
)
def test_where_only_some_namespaces_are_watched_work_is_changed_in_those_alone(
    group: str, resources: set[str], rbac: dict[str, bool]
) -> None:
    settings = {"batch": {"enabled": True}, "watch_namespaces": ["team-a", "team-b"]}
    found = granted(render({"settings": settings, "rbac": rbac}))
    changed = {row for row in found if row[0] == group and row[2] not in {"list", "watch"}}
    assert changed == {(group, one, "patch", space, None) for one in resources for space in ("team-a", "team-b")}
    for one in resources:
        assert (group, one, "list", None, None) in found, "what is on a node is known wherever its work is"


def test_namespaces_without_nodes_take_no_right_of_the_whole_cluster() -> None:
    found = render(RENDERINGS["namespaced"])
    assert not [one for one in found if one["kind"].startswith("Cluster")]
    assert ("", "pods", "list", "gateway", None) in granted(found), "gateways are read where they are"
    assert not [one for one in found if "namespace" not in one["metadata"]], "nothing is installed in the cluster"


@pytest.mark.parametrize("name", RENDERINGS)
def test_no_right_is_on_secrets_and_none_is_on_everything(name: str) -> None:
    found = render(RENDERINGS[name])
    for group, resource, verb, _, _ in granted(found):
        assert "*" not in f"{group}{resource}{verb}" or resource in READ, "paths of our own server may go on"
        assert resource.partition("/")[0] != "secrets"
        assert verb not in {"escalate", "bind", "impersonate", "deletecollection"}
    account = only(found, "ServiceAccount", "headroom")["metadata"]
    own = [
        one for one in found if one["kind"].endswith("RoleBinding") and not one["roleRef"]["name"].endswith("-reader")
    ]
    for binding in own:
        (subject,) = binding["subjects"]
        assert (subject["kind"], subject["name"], subject["namespace"]) == (
            "ServiceAccount", account["name"], account["namespace"],
        )  # fmt: skip
