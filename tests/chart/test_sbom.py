"""The bill of materials: what the lock names for running, each file with its digest, and what the image then holds."""

import json
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

import pytest

from autoscaler import __version__
from tests.conftest import ROOT

PROJECT: Final = "headroom-autoscaler"

Named = set[tuple[str, str]]
"""Names and versions."""


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `dev.py sbom FILE` writes."""
    path = tmp_path_factory.mktemp("sbom") / "bill.json"
    done = subprocess.run([sys.executable, "dev.py", "sbom", str(path)], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b""
    return dict(json.loads(path.read_text()))


def needed() -> list[dict[str, Any]]:
    """The rows of the lock that running needs, on whatever machine: all that is reached from the project itself."""
    rows = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    todo, reached = [(PROJECT, None, "")], set()
    while todo:
        name, version, extra = todo.pop()
        for row in (one for one in rows if one["name"] == name and version in {None, one.get("version")}):
            if (name, row.get("version"), extra) in reached:
                continue
            reached.add((name, row.get("version"), extra))
            leads = row.get("optional-dependencies", {}).get(extra, []) if extra else row.get("dependencies", [])
            for one in leads:
                todo += [(one["name"], one.get("version"), more) for more in ("", *one.get("extra", ()))]
    return [row for row in rows if (row["name"], row.get("version"), "") in reached and row["name"] != PROJECT]


def listed(bill: dict[str, Any]) -> Named:
    """Its components."""
    return {(one["name"], one["version"]) for one in bill["components"]}


def test_it_lists_every_package_that_the_lock_names_for_running_and_no_tool(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"]) == (PROJECT, __version__)
    wanted = {(row["name"], row["version"]) for row in needed()}
    assert len(wanted) > 40
    assert listed(bill) == wanted
    assert not {"pytest", "mypy", "ruff", "hypothesis"} & {name for name, _ in wanted}


def test_a_file_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "none" / "bill.json"
    done = subprocess.run([sys.executable, "dev.py", "sbom", str(path)], cwd=ROOT, capture_output=True, check=False)
    told = (
        f"dev.py: error: {path}: cannot be written (No such file or directory); name a file in a folder that is there\n"
    )
    assert (done.returncode, done.stderr.decode()) == (2, told)


def test_every_file_of_a_package_has_the_digest_that_the_lock_holds_it_to(bill: dict[str, Any]) -> None:
    rows = {(row["name"], row["version"]): row for row in needed()}
    for one in bill["components"]:
        row = rows[one["name"], one["version"]]
        files = [*row.get("wheels", ()), *([row["sdist"]] if "sdist" in row else [])]
        told = {digest["content"] for ref in one["externalReferences"] for digest in ref["hashes"]}
        assert told == {file["hash"].removeprefix("sha256:") for file in files}, one["name"]


@pytest.mark.real
@pytest.mark.timeout(900)
def test_the_image_holds_nothing_that_it_does_not_list(bill: dict[str, Any], image: Path) -> None:
    (packages,) = image.glob("lib/python*/site-packages")
    held = {
        (one.name.lower().replace("_", "-").replace(".", "-"), one.version)
        for one in distributions(path=[str(packages)])
    }
    assert (PROJECT, __version__) in held
    assert len(held) > 30
    assert held - listed(bill) == {(PROJECT, __version__)}
