"""One version for package, chart and image, a licence, and workflows that run what the project runs."""

import re
from typing import Any, Final

import msgspec
import pytest

from autoscaler import __version__
from tests.chart.generate import CHART
from tests.chart.rendering import helm
from tests.conftest import ROOT

WORKFLOWS: Final = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_package_and_chart_have_one_version_and_the_changelog_knows_what_is_in_it() -> None:
    chart = msgspec.yaml.decode((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", heading) for heading in headings[1:])


def test_the_licence_is_the_one_that_package_and_chart_name() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text.splitlines()[0] + text.splitlines()[1]
    assert "Version 2.0, January 2004" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
    chart = msgspec.yaml.decode((CHART / "Chart.yaml").read_text())
    assert chart["annotations"]["artifacthub.io/license"] == "Apache-2.0"


def test_the_chart_names_every_definition_that_it_installs() -> None:
    chart = msgspec.yaml.decode((CHART / "Chart.yaml").read_text())
    named = {one["name"] for one in msgspec.yaml.decode(chart["annotations"]["artifacthub.io/crds"])}
    paths = (ROOT / "config/crd").glob("*.yaml")
    assert named == {msgspec.yaml.decode(path.read_text())["metadata"]["name"] for path in paths}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_the_project_runs_with_the_rights_to_read(path: Any) -> None:
    workflow = msgspec.yaml.decode(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    runs = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert any(".ci/run" in run for run in runs)
    for run in runs:
        assert re.match(r"(sudo .*)?\.ci/run$|python3 dev\.py |docker ", run)


def test_installations_that_are_shown_can_be_rendered() -> None:
    shown = [path.read_text() for path in (ROOT / "README.md", CHART / "README.md")]
    given = {
        pair
        for text in shown
        for pair in re.findall(r"^helm .*--set ([\w.]+=[\w./-]+)|`--set ([\w.]+=\w+)`", text, re.MULTILINE)
    }
    assert len(given) == 3
    for one, other in given:
        done = helm("template", "headroom", CHART, "--set", (one or other).replace("REGISTRY", "registry.example.com"))
        assert done.returncode == 0, done.stderr


def test_the_map_of_rooms_names_rooms_that_are_there() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"^\| [^|]* \| `([a-z/]*)", table, re.MULTILINE)
    assert len(named) > 6
    for name in named:
        assert (ROOT / name).exists(), name
