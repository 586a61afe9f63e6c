"""How the audit log is read that real suites are judged by: what is missing, what is too much, whose words count."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cluster.controller import ACCOUNT
from tests.cluster.rights_used import TRIED, UNUSED, given, judged, refused, requests, used


def entry(
    verb: str, group: str, resource: str, *, user: str = ACCOUNT, decision: str = "allow", code: int = 200
) -> str:
    """A line of an audit log, as the API server writes it at level Metadata."""
    name, _, subresource = resource.partition("/")
    ref = {"resource": name} | ({"apiGroup": group} if group else {})
    ref |= {"subresource": subresource} if subresource else {}
    return json.dumps({
        "verb": verb, "requestURI": f"/{group}/{resource}", "user": {"username": user}, "objectRef": ref,
        "responseStatus": {"code": code}, "annotations": {"authorization.k8s.io/decision": decision},
    })  # fmt: skip


def verdict(tmp_path: Path, *lines: str) -> str:
    """What is said of a module of two tests, whole, whose controller asked for this; empty where it is well."""
    audit = tmp_path / "audit.log"
    audit.write_text(entry("delete", "", "secrets", decision="forbid") + "\n")
    module = SimpleNamespace(test_a=None, test_b=None)
    items = [SimpleNamespace(name=name, originalname=name, path=tmp_path) for name in ("test_a", "test_b")]
    session = SimpleNamespace(items=items, testsfailed=0)
    request: Any = SimpleNamespace(module=module, session=session, path=tmp_path)
    plane: Any = SimpleNamespace(audit=audit)
    judging = judged(request, plane, "batch")
    next(judging)
    with audit.open("a") as log:
        log.write("".join(f"{line}\n" for line in lines))
    try:
        next(judging, None)
    except AssertionError as error:
        return str(error)
    return ""


def all_but(*left_out: tuple[str, str, str]) -> list[str]:
    """Every right of batch admission used, but these."""
    rows = given("batch") - UNUSED["batch"].keys() - set(left_out)
    return [entry(verb, group, resource) for group, resource, verb in sorted(rows)]


def test_a_module_that_uses_what_is_granted_and_no_more_is_well(tmp_path: Path) -> None:
    assert verdict(tmp_path, *all_but()) == "", "and what was refused before it began is not its own"


@pytest.mark.parametrize(
    ("line", "words"),
    [(entry("patch", "batch", "jobs", decision="forbid", code=403), "patch /batch/jobs"),
     (entry("list", "", "secrets", decision="forbid", code=403), "no manifest grants"),
     (entry("delete", "batch", "jobs"), "no manifest grants")],
    ids=["a right that was taken away", "a question that no manifest allows", "a right from elsewhere"],
)  # fmt: skip
def test_what_was_refused_and_what_is_granted_nowhere_is_told(tmp_path: Path, line: str, words: str) -> None:
    assert words in verdict(tmp_path, *all_but(), line)


@pytest.mark.parametrize(
    "line",
    [entry("patch", "batch", "jobs", code=403), entry("list", "", "secrets", user="somebody", decision="forbid"),
     entry("list", "jobset.x-k8s.io", "jobsets", decision="forbid", code=403)],
    ids=["a policy's no", "somebody else's", "what is tried to learn whether it was granted"],
)  # fmt: skip
def test_what_is_no_missing_right_of_ours_is_left_alone(tmp_path: Path, line: str) -> None:
    assert verdict(tmp_path, *all_but(), line) == ""


def test_a_right_that_is_granted_and_never_used_is_told(tmp_path: Path) -> None:
    assert "granted and not used" in verdict(tmp_path, *all_but(("batch", "jobs", "patch")))


@pytest.mark.parametrize("folder", UNUSED)
def test_no_reason_stands_for_what_is_not_granted(folder: str) -> None:
    assert UNUSED[folder].keys() <= given(folder)


def test_a_subresource_counts_as_itself_and_an_unfinished_line_not_at_all(tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    audit.write_text(entry("patch", "apps", "deployments/scale") + "\n" + entry("list", "", "pods")[:-20])
    asked = requests(SimpleNamespace(audit=audit))  # type: ignore[arg-type]
    assert used(asked) == {("apps", "deployments/scale", "patch")}
    assert refused(asked) == []
    assert all(given(folder) for folder in TRIED)
