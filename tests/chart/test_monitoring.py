"""Alerts and dashboards speak of metrics that the controller exports; every alert leads to a chapter that is there."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from autoscaler.cli.main import SUMMARIES
from autoscaler.record.families import Kind
from autoscaler.record.metrics import CATALOGUE
from autoscaler.runtime.actuator import Outcome
from autoscaler.settings.load import load_settings
from autoscaler.settings.model import Settings
from tests.chart.generate import CHART
from tests.chart.rendering import EVERYTHING, of_kind, only, render

SUFFIXES: Final = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
EXPORTED: Final = {
    f"{metric.name}{suffix}": metric for metric in CATALOGUE for suffix in SUFFIXES.get(metric.kind, ("",))
}
"""Name of a series -> its metric."""
OF_THE_SCRAPE: Final = {"job", "instance", "namespace", "le"}
"""Where a metric has a label of that name itself, as a workload's namespace, it is that one: monitors honour labels."""
DASHBOARDS: Final = sorted((CHART / "dashboards").glob("*.json"))
RUNBOOKS: Final = CHART / "docs" / "runbooks.md"
BATCH: Final = {"settings": {"batch": {"enabled": True}}}
WRITTEN: Final[list[dict[str, Any]]] = [
    alert
    for group in msgspec.yaml.decode((CHART / "files/alerts.yaml").read_text())["groups"]
    for alert in group["rules"]
]


def alerts() -> list[dict[str, Any]]:
    """The alerts as the chart installs them."""
    rule = only(render({**BATCH, "monitoring": {"rules": {"enabled": True}}}), "PrometheusRule")
    return [alert for group in rule["spec"]["groups"] for alert in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression of an alert or a panel, and where it stands."""
    yield from ((alert["alert"], alert["expr"]) for alert in WRITTEN)
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.stem}: {panel['title']}", target["expr"]


def variables() -> Iterator[tuple[str, str]]:
    """Every question by which a dashboard fills its lists."""
    for path in DASHBOARDS:
        for variable in json.loads(path.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                yield f"{path.stem}: {variable['name']}", variable["definition"]


def series_of(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The series that an expression names, each with the labels that it asks of it."""
    for name, matchers in re.findall(r"\b(headroom_\w+)(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*[=!]", matchers))


ALL: Final = [*expressions(), *variables()]


@pytest.mark.parametrize(("where", "expression"), ALL, ids=[where for where, _ in ALL])
def test_every_expression_asks_for_metrics_and_labels_that_the_controller_exports(where: str, expression: str) -> None:
    named = list(series_of(expression))
    assert named
    for name, labels in named:
        assert name in EXPORTED, f"{name} is not exported"
        assert labels <= {*EXPORTED[name].labels, *OF_THE_SCRAPE}, name
    grouped = {label for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in group.split(", ")}
    known = {label for name, _ in named for label in EXPORTED[name].labels}
    assert grouped <= known | OF_THE_SCRAPE


@pytest.mark.parametrize("alert", WRITTEN, ids=lambda alert: alert["alert"])
def test_an_alert_tells_installations_of_one_scrape_job_apart(alert: dict[str, Any]) -> None:
    groups = [set(group.split(", ")) for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", alert["expr"])]
    assert all("job" in group and group & {"namespace", "instance"} for group in groups)


def test_outcomes_that_an_alert_counts_are_outcomes() -> None:
    (expression,) = [alert["expr"] for alert in alerts() if alert["alert"] == "HeadroomChangesRefused"]
    (codes,) = re.findall(r'outcome=~"([^"]*)"', expression)
    assert set(codes.split("|")) <= {outcome.name for outcome in Outcome}


def test_every_alert_leads_to_its_chapter_and_every_chapter_to_an_alert() -> None:
    found = alerts()
    assert len(found) >= 8
    chapters = re.findall(r"^## (\w+)$", RUNBOOKS.read_text(), re.MULTILINE)
    assert sorted(chapters) == sorted(alert["alert"] for alert in found)
    for alert in found:
        page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
        assert CHART / page == RUNBOOKS
        assert anchor in {chapter.lower() for chapter in chapters}
        assert alert["annotations"]["summary"]
        assert alert["annotations"]["description"]
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}


@pytest.mark.parametrize("alert", WRITTEN, ids=lambda alert: alert["alert"])
def test_an_alert_says_by_itself_what_to_do_first(alert: dict[str, Any]) -> None:
    """Whoever is woken by it reads it in a chat, from where the runbook may be no link."""
    what, _, todo = alert["annotations"]["description"].partition(" Do: ")
    assert what.endswith(".")
    assert todo.endswith(".")
    assert set(re.findall(r"`headroom (\w+)", todo)) <= set(SUMMARIES)
    named = set(re.findall(r"\$labels\.(\w+)", todo))
    grouped = {label for group in re.findall(r"\bby \(([^)]*)\)", alert["expr"]) for label in group.split(", ")}
    one_series = {label for name, _ in series_of(alert["expr"]) for label in EXPORTED[name].labels}
    assert named <= (grouped or one_series)
    values = re.findall(r"`settings\.([a-z_.]+)", todo)
    assert all(found_in(Settings().effective(), path) for path in values), values


def found_in(settings: dict[str, Any], path: str) -> bool:
    """Whether there is a setting at this path."""
    place: Any = settings
    for part in path.split("."):
        if not isinstance(place, dict) or part not in place:
            return False
        place = place[part]
    return True


def test_replicas_of_one_installation_show_the_same_hash_and_those_of_other_settings_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the cluster fills in differs from pod to pod, and HeadroomSettingsDiffer may not fire for it."""
    made = render(EVERYTHING)
    container = only(made, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    own = [row["name"] for row in container["env"] if "valueFrom" in row]
    assert own == ["HEADROOM_IDENTITY", "HEADROOM_HTTP__ADVERTISED_HOST"]
    (config,) = [one for one in of_kind(made, "ConfigMap") if "settings.yaml" in one["data"]]
    file = tmp_path / "settings.yaml"
    file.write_text(config["data"]["settings.yaml"])
    hashes = []
    for pod in ("pod-0", "pod-1"):
        for name in own:
            monkeypatch.setenv(name, pod)
        hashes.append(load_settings(config=file).fingerprint())
    assert hashes[0] == hashes[1]
    assert load_settings(config=file, flags={"scrape": {"interval_s": 2.0}}).fingerprint() != hashes[0]


def test_runbooks_are_where_the_values_say_and_an_alert_can_be_left_out() -> None:
    values = {"enabled": True, "runbookBaseUrl": "https://wiki.example.com/gpu", "disabled": ["HeadroomFrozen"]}
    rule = only(render({**BATCH, "monitoring": {"rules": values}}), "PrometheusRule")
    told = {alert["alert"]: alert["annotations"] for group in rule["spec"]["groups"] for alert in group["rules"]}
    assert told["HeadroomNoLeader"]["runbook_url"] == "https://wiki.example.com/gpu#headroomnoleader"
    assert "HeadroomFrozen" not in told
    assert len(told) == len(alerts()) - 1


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboards_panels_are_numbered_lie_side_by_side_and_say_what_they_show(path: Path) -> None:
    board = json.loads(path.read_text())
    panels = board["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, f"{panel['title']} lies over another"
        taken |= cells
        assert panel["type"] == "row" or panel["description"]
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel.get("targets", ()))


def test_the_end_of_every_certificate_is_on_the_fleets_dashboard() -> None:
    ends = {name for name in EXPORTED if "certificate_not_after" in name}
    shown = (CHART / "dashboards/fleet.json").read_text()
    assert len(ends) == 2
    assert {name for name in ends if name in shown} == ends


def test_dashboards_are_installed_as_they_are_in_the_chart() -> None:
    found = render({**BATCH, "monitoring": {"dashboards": {"enabled": True}}})
    for path in DASHBOARDS:
        installed = only(found, "ConfigMap", f"headroom-dashboard-{path.stem}")
        assert installed["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(installed["data"][path.name]) == json.loads(path.read_text())


def test_without_batch_work_there_is_neither_an_alert_nor_a_dashboard_of_it() -> None:
    found = render({"monitoring": {"rules": {"enabled": True}, "dashboards": {"enabled": True}}})
    rules = only(found, "PrometheusRule")["spec"]["groups"]
    left_out = {alert["alert"] for alert in alerts()} - {alert["alert"] for group in rules for alert in group["rules"]}
    assert left_out
    assert all(name.startswith("HeadroomBatch") for name in left_out)
    boards = {one["metadata"]["name"] for one in found if one["kind"] == "ConfigMap" and "dashboard" in str(one)}
    assert boards == {"headroom-dashboard-fleet", "headroom-dashboard-workload"}


@pytest.mark.real
@pytest.mark.needs("prometheus")
def test_prometheus_can_read_every_expression(tmp_path: Path) -> None:
    rules = [{"record": f"test:{number}", "expr": expression} for number, (_, expression) in enumerate(expressions())]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    promtool = shutil.which("promtool")
    assert promtool is not None
    for checked in (file, CHART / "files/alerts.yaml"):
        done = subprocess.run([promtool, "check", "rules", str(checked)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
