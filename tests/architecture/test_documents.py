"""What documents claim and fast tests can show: links lead somewhere, named tests and files are there, rights end."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from autoscaler.api.claims import Kind
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.api.schema import Spelling
from autoscaler.cli.rights import Own, rights
from autoscaler.settings.model import Settings
from tests.architecture.test_rules import modules
from tests.chart.fields import rows
from tests.conftest import ROOT

DOCS: Final = ROOT / "charts/headroom/docs"
PAGES: Final = [DOCS / "security.md", DOCS / "neighbours.md"]
LINKED: Final = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tests/README.md", ROOT / "loadtests/README.md",
    ROOT / "config/README.md", ROOT / "charts/headroom/README.md", *sorted((ROOT / "autoscaler").glob("*/README.md")),
    *sorted((ROOT / "loadtests/findings").glob("*.md")), *sorted(DOCS.glob("*.md")),
]  # fmt: skip
CODE: Final = frozenset({"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve", "skops"})
"""Modules whose formats may carry code."""


def functions(path: Path) -> set[str]:
    """The tests of a file."""
    found = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def table(path: Path) -> list[list[str]]:
    """The rows of a page's table, without its head."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        led = (page.parent / target).resolve() if target else page
        assert led.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(led), f"{target}#{anchor} is no heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_and_every_file_that_is_named_is_there(page: Path) -> None:
    named = re.findall(r"`((?:autoscaler|charts|config|loadtests|tests)/[\w./-]*)(?:::(\w+))?`", page.read_text())
    assert len(named) > 20
    for path, test in named:
        assert (ROOT / path).exists(), path
        assert not test or test in functions(ROOT / path), f"{path}::{test}"
        assert not test or test.startswith("test_"), f"{path}::{test} is no test"


def test_every_threat_has_what_stands_against_it_and_its_tests_or_says_that_it_has_none() -> None:
    found = table(DOCS / "security.md")
    assert len(found) > 10
    for threat, against, shown in found:
        assert against, threat
        assert "::test_" in shown or shown == "no test", threat


def test_no_field_of_a_policy_names_a_file_a_secret_or_an_address() -> None:
    names = {row.path(Spelling.SNAKE) for row in rows(ScalingPolicySpec)}
    dangerous = re.compile(r"file|path|secret|token(?!s)|url|host|address|env|command|image")
    assert {name for name in names if dangerous.search(name)} == {"metrics_path"}, "the path of a page on its own pods"


def test_headroom_may_change_nothing_that_batch_schedulers_own() -> None:
    settings = Settings()
    kinds = [Kind(k.group, k.version, k.resource, k.kind) for k in settings.kinds]
    own = Own(settings.namespace, settings.lease.name, settings.freeze_config_map)
    needed = rights(kinds, (), own, deletion_cost=True, slots=settings.warm_pools.namespace, batch=True)
    assert {right.group for right in needed} == {
        "", "apps", "autoscaling", "autoscaling.k8s.io", "batch", "coordination.k8s.io", "headroom.dev", "karpenter.sh",
        "keda.sh", "kueue.x-k8s.io", "leaderworkerset.x-k8s.io", "scheduling.k8s.io",
    }  # fmt: skip
    assert {right.resource for right in needed if right.group == "scheduling.k8s.io"} == {"priorityclasses"}
    changed = {(r.group, r.resource) for r in needed if r.verb not in {"get", "list", "watch"} and r.namespace is None}
    assert changed == {
        ("", "events"), ("", "pods"), ("apps", "deployments/scale"), ("apps", "statefulsets/scale"),
        ("leaderworkerset.x-k8s.io", "leaderworkersets/scale"), ("headroom.dev", "scalingpolicies/status"),
        ("headroom.dev", "warmpools/status"), ("headroom.dev", "batchqueues/status"), ("batch", "jobs"),
        ("karpenter.sh", "nodeclaims"), ("karpenter.sh", "nodepools"),
    }  # fmt: skip


def test_nothing_reads_what_could_be_code() -> None:
    parts = {name: {one.partition(".")[0] for one in module.imports} & CODE for name, module in modules().items()}
    assert len(parts) > 500
    assert {name: found for name, found in parts.items() if found} == {}
