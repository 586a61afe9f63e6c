"""The reference knows every name that users may write and every word that Headroom tells, and no others."""

import ast
import re
from pathlib import Path
from typing import Any, Final

import pytest

from autoscaler.api.annotations import read_annotations
from autoscaler.api.claims import Reject
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.api.schema import Spelling
from autoscaler.api.trigger import PER_REPLICA, VALUE, read_trigger
from autoscaler.app.pool_loans import MADE, RECALLED, RETURNED
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.errors import InputError
from autoscaler.record.metrics import CATALOGUE
from tests.chart import told
from tests.chart.fields import policies, rows
from tests.chart.generate import CHART
from tests.conftest import ROOT

APP: Final = ROOT / "autoscaler" / "app"
OF_OTHERS: Final = {
    "rejection.reject.value": {reject.value for reject in Reject},
    "condition.reason": set[str](),
    "condition.type": set[str](),
    "event.word": {MADE, RECALLED, RETURNED},
}
"""What stands for an event's name in the code where no name does; conditions have a table of their own."""


def names(path: Path) -> set[str]:
    """The events that a module tells: what it hands to `note` for a name."""
    tree = ast.parse(path.read_text())
    found = set[str]()
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "note"):
            continue
        if len(call.args) == 4 and ast.unparse(call.func.value).endswith("events"):
            found |= words(call.args[2], tree)
    return found


def words(given: ast.expr, tree: ast.Module) -> set[str]:
    """The names that an expression may stand for."""
    said = ast.unparse(given)
    if said in OF_OTHERS:
        return OF_OTHERS[said]
    if said == "words[0]":
        (function,) = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "_words")
        pairs = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
        return {str(ast.literal_eval(pair.elts[0])) for pair in pairs if isinstance(pair, ast.Tuple)}
    if said == "reason":
        (function,) = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "_code")
        told = [ast.unparse(node.value) for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
        return {found[1] for text in told for found in re.finditer(r"(?:Normal|Warning)/(\w+)/", text)}
    options = [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]
    return {str(ast.literal_eval(option)) for option in options}


def test_every_setting_says_what_it_is() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|.*\| (.*?) ?\|$", (CHART / "docs/settings.md").read_text(), re.MULTILINE)
    assert len(rows) > 60
    assert [path for path, words in rows if not words.strip()] == []


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("scrape.interval_s", "`1.0`"), ("gateways.*.port", "to be given"), ("gateways.*.path", '`"/metrics"`'),
        ("gpu_exporter.selector", '`"app=nvidia-dcgm-exporter"`'), ("shapes.*.sku", "to be given"),
        ("shapes.*.capacity_type", '`"on-demand"`'), ("budgets.cluster_gpus", ""),
    ],
)  # fmt: skip
def test_a_setting_of_a_part_that_is_optional_tells_its_default_or_that_it_has_none(path: str, shown: str) -> None:
    text = (CHART / "docs/settings.md").read_text()
    (found,) = re.findall(rf"^\| `{re.escape(path)}` \| ?(.*?) \|", text, re.MULTILINE)
    assert found.strip() == shown


def test_every_event_that_the_code_tells_is_explained_and_no_other() -> None:
    told_by = {path.name: names(path) for path in APP.glob("*.py")}
    pools = told_by.pop("pool_telling.py")
    assert pools == set(told.ADVICE["pool_event"])
    batch = told_by.pop("batch_telling.py")
    assert batch == set(told.ADVICE["batch_event"])
    assert set().union(*told_by.values()) == set(told.ADVICE["event"])


def test_every_name_that_an_annotation_may_have_stands_in_the_reference() -> None:
    with pytest.raises(InputError, match="known are ") as refused:
        read_annotations({"headroom.dev/scale": "true", "headroom.dev/0000": "1"})
    known = set(str(refused.value).partition("known are ")[2].split(", "))
    keys = {row.key(Spelling.KEBAB) for row in flat()}
    assert keys == known


def test_every_key_that_a_trigger_may_have_stands_in_the_reference() -> None:
    with pytest.raises(InputError, match="known are ") as refused:
        read_trigger({"0000": "1"}, minimum=1, maximum=2)
    known = set(str(refused.value).partition("known are ")[2].split(", "))
    bounds = {"minReplicas", "maxReplicas"}
    keys = {row.key(Spelling.CAMEL) for row in flat()} - bounds
    assert keys | {VALUE, PER_REPLICA, "scalerAddress", "enableTLS", "unsafeSsl"} == known
    assert "`minReplicaCount`" in policies()


def flat() -> list[Any]:
    """The rows of a policy that are a text each."""
    every = [row for row in rows(ScalingPolicySpec) if row.steps[0][0] != "target_ref"]
    return [row for row in every if "properties" not in row.form and "[]" not in row.path(Spelling.SNAKE)]


def test_each_word_of_a_condition_is_explained() -> None:
    """Words for programs are capitalised constants; what is composed of codes is told by their tables."""
    for module, section in (("standing.py", "condition"), ("pool_telling.py", "pool_condition")):
        tree = ast.parse((APP / module).read_text())
        said = {
            str(argument.value)
            for call in ast.walk(tree)
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id in {"_made", "_told", "Condition"}
            for argument in call.args[2:3]
            if isinstance(argument, ast.Constant)
        }
        explained = " ".join([*told.ADVICE[section], *told.ADVICE[section].values()])
        unsaid = {word for word in said if not re.search(rf"\b{word}\b", explained)}
        assert len(said) > 4
        # That all is well needs no advice.
        assert unsaid <= {"Fresh", "Followed", "NothingDecided"}, unsaid


def test_labels_that_are_explained_are_those_that_metrics_have() -> None:
    assert set(told.LABELS) == {label for metric in CATALOGUE for label in metric.labels}


def test_a_code_without_advice_and_advice_without_a_code_end_the_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = told.ADVICE["pool_reason"]
    monkeypatch.setitem(told.ADVICE, "pool_reason", kept | {"NOBODY": "Nothing."})
    with pytest.raises(ValueError, match="pool_reason has NOBODY"):
        told.reasons()
    monkeypatch.setitem(told.ADVICE, "pool_reason", {k: v for k, v in kept.items() if k != PoolReason.STEADY.name})
    with pytest.raises(KeyError, match="STEADY"):
        told.reasons()


def test_whoever_reads_the_chart_finds_every_page() -> None:
    shown = (CHART / "README.md").read_text()
    for path in (CHART / "docs").glob("*.md"):
        assert f"(docs/{path.name})" in shown, f"the chart's README does not lead to docs/{path.name}"


def test_every_word_by_which_a_gang_is_told_is_explained() -> None:
    names = ("jobsets", "trainer", "training", "pod_findings")
    readers = (ROOT / f"autoscaler/adapters/kube/batch_{each}.py" for each in names)
    rooms = (*sorted(APP.glob("batch*.py")), *readers)
    told_by = "\n".join(path.read_text() for path in rooms)
    words = set(re.findall(r'"([A-Z][A-Z_]{5,})"', told_by)) - {reason.name for reason in BatchReason}
    assert words == set(told.ADVICE["batch_word"]) - {reason.name for reason in BatchReason}
