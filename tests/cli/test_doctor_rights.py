"""The rights that `headroom doctor` looks at are those that the roles of the repository grant."""

from pathlib import Path
from typing import Any

import msgspec

from autoscaler.api.claims import Kind
from autoscaler.cli.rights import Own, Right, jobset_rights, of_each_rule, rights, training_rights, trainjob_rights
from autoscaler.settings.model import Settings
from tests.conftest import ROOT


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


def test_of_what_is_kept_under_many_names_one_is_asked_for_and_no_right_reaches_any_other() -> None:
    needed = rights([], [], Own("ops", "blue", "stop"))
    kept = [right for right in needed if right.resource == "configmaps" and right.verb in {"get", "update", "delete"}]
    assert all(right.name is not None and right.name.startswith("blue-") for right in kept)
    asked = [right for right in of_each_rule(needed) if right in kept]
    assert [(right.verb, right.name) for right in asked] == [
        ("get", "blue-checkpoint-index"), ("update", "blue-checkpoint-index"), ("delete", "blue-checkpoint-index"),
    ]  # fmt: skip
    assert {(r.resource, r.verb, r.namespace) for r in of_each_rule(needed)} == {
        (r.resource, r.verb, r.namespace) for r in needed
    }


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
