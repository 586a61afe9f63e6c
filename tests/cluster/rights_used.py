"""The rights in config/rbac against those that real suites really use, by the API server's audit log.

Nothing that the controller asked may have been refused, nothing that it did may be granted by no manifest, and what a
manifest grants is used in the suite that is about it, or has its reason here.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest

from tests.chart.rendering import objects
from tests.chart.test_rights import granted
from tests.cluster.controller import ACCOUNT
from tests.cluster.plane import Plane, audit_entries
from tests.conftest import ROOT

RBAC: Final = ROOT / "config/rbac"

Row = tuple[str, str, str]
"""Group, resource with its subresource, verb."""

KARPENTER: Final = "Karpenter is not there in this suite: tests/capacity/test_pools.py runs with it"
UNUSED: Final[dict[str, dict[Row, str]]] = {
    "batch": {
        ("", "events", "patch"): "an event that comes again is counted up",
        ("kueue.x-k8s.io", "workloads", "watch"): "Kueue is not served here: a list is all that can be tried",
    },
    "warm-pools": {
        ("", "events", "patch"): "an event that comes again is counted up",
        ("", "pods", "patch"): "Choose alone marks slots before they give way: tests/kube/test_pool_writer.py",
        ("karpenter.sh", "nodeclaims", "delete"): "of a node whose GPUs never come: tests/kube/test_pool_writer.py",
        ("karpenter.sh", "nodepools", "create"): "an apply of what is not there needs it, and is audited as a patch",
        **dict.fromkeys([("karpenter.sh", kind, "watch") for kind in ("nodeclaims", "nodepools")], KARPENTER),
        ("karpenter.sh", "nodepools", "patch"): KARPENTER,
    },
}
"""Folder of config/rbac -> what its suite need not use, and why it is granted all the same."""

TRIED: Final = ("jobsets", "train-jobs", "training-jobs")
"""Folders by whose rights batch admission tries to read, to learn whether they were granted."""


def given(*folders: str) -> set[Row]:
    """What the manifests of these folders grant, "." being those that always hold."""
    files = [path for folder in folders for path in sorted((RBAC / folder).glob("*.yaml"))]
    return {row[:3] for row in granted([one for path in files for one in objects(path.read_text())])}


def requests(plane: Plane, since: int = 0) -> list[dict[str, Any]]:
    """What the controller's account asked for of objects, from this byte of the audit log on."""
    return [
        one for one in audit_entries(plane.audit, since) if one["user"]["username"] == ACCOUNT and "objectRef" in one
    ]


def refused(asked: Iterable[dict[str, Any]]) -> list[str]:
    """The requests for which a right was missing; what an admission policy denies is none of them."""
    decisions = ((one, one.get("annotations", {}).get("authorization.k8s.io/decision")) for one in asked)
    return [f"{one['verb']} {one['requestURI']}" for one, decision in decisions if decision == "forbid"]


def used(asked: Iterable[dict[str, Any]]) -> set[Row]:
    """The rights that these requests needed."""
    refs = ((one["verb"], one["objectRef"]) for one in asked)
    return {
        (ref.get("apiGroup", ""), "/".join(filter(None, (ref["resource"], ref.get("subresource")))), verb)
        for verb, ref in refs
    }


def judged(
    request: pytest.FixtureRequest, plane: Plane, folder: str, *besides: str, opt_in: bool = False, untrue: str = ""
) -> Iterator[None]:
    """Judge the suite of a module once it is through, by the rights of `folder`; it runs with those of `besides` too.

    What is granted and not used is judged where the whole module ran. With `opt_in` the rights of `folder` are each
    namespace's to give, and may be refused in one that did not. The reason `untrue` does not hold here.
    """
    since = plane.audit.stat().st_size
    whole = whole_module(request)
    yield
    asked = requests(plane, since)
    granted_here = given(".", folder, *besides)
    strange = used(asked) - granted_here - given(*TRIED)
    assert not strange, f"the audit log holds what no manifest grants: {sorted(strange)}"
    always = granted_here - given(folder) if opt_in else granted_here
    denied = refused(one for one in asked if used([one]) <= always)
    assert not denied, f"refused: {denied}"
    if whole and not request.session.testsfailed:
        reasons = {row for row, why in UNUSED.get(folder, {}).items() if why != untrue}
        idle = given(folder) - used(asked) - reasons
        assert not idle, f"granted and not used, without a reason: {sorted(idle)}"


def whole_module(request: pytest.FixtureRequest) -> bool:
    """Whether all tests of the module run, none left out by a name or a mark."""
    named = {name for name in dir(request.module) if name.startswith("test_")}
    there = {getattr(item, "originalname", item.name) for item in request.session.items if item.path == request.path}
    return named <= there
