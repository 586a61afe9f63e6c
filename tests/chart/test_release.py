"""One version for package, chart and image, a licence, and workflows that run what the project runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

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


def jobs(name: str) -> dict[str, Any]:
    """The jobs of a workflow that begins with the rights to read alone."""
    workflow = msgspec.yaml.decode((ROOT / f".github/workflows/{name}.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    return dict(workflow["jobs"])


def test_workflows_run_what_the_project_runs_with_the_rights_to_read() -> None:
    ci = jobs("ci")
    assert {path.stem for path in WORKFLOWS} == {"ci", "rebuild", "release"}
    assert not [job for job in ci.values() if "permissions" in job]
    runs = [step["run"] for job in ci.values() for step in job["steps"] if "run" in step]
    assert any(".ci/run" in run for run in runs)
    for run in runs:
        assert re.match(r"(sudo .*)?\.ci/run$|python3 dev\.py |docker ", run)


def test_a_release_is_made_after_everything_has_passed_by_a_job_that_may_do_no_more_than_name_itself() -> None:
    found = jobs("release")
    assert found["ci"] == {"uses": "./.github/workflows/ci.yml"}
    release = found["release"]
    assert release["needs"] == "ci"
    assert release["permissions"] == {"contents": "read", "id-token": "write"}
    assert [step["run"] for step in release["steps"] if "run" in step] == [".ci/release"]


def test_every_week_the_newest_release_is_built_anew_with_the_rights_of_a_release() -> None:
    assert "on:\n  schedule:\n" in (ROOT / ".github/workflows/rebuild.yml").read_text()
    rebuild, release = jobs("rebuild")["rebuild"], jobs("release")["release"]
    assert [step["run"] for step in rebuild["steps"] if "run" in step] == [".ci/rebuild"]
    for key in ("permissions", "environment"):
        assert rebuild[key] == release[key]
    assert rebuild["steps"][0]["with"]["fetch-depth"] == 0, "without the tags it would find no release"
    (login,) = (step for step in rebuild["steps"] if "login" in step.get("uses", ""))
    assert login["if"] == "vars.REGISTRY != ''", "where nothing was ever released there is no registry to log in to"


def test_what_workflows_take_from_others_is_named_by_commit_and_the_same_everywhere() -> None:
    texts = [path.read_text() for path in WORKFLOWS]
    used = {one for text in texts for one in re.findall(r"uses: (?!\./)(.*)$", text, re.MULTILINE)}
    assert not [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)]
    assert len({one.partition("@")[0] for one in used}) == len(used) > 6


STUB: Final = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$(basename "$0") $1" in
  "docker buildx") while [ $# -gt 0 ]; do
    if [ "$1" = --metadata-file ]; then echo '{"containerimage.digest": "sha256:11"}' > "$2"; fi; shift
  done ;;
  "helm push") echo "Pushed: somewhere" >&2; echo "Digest: sha256:22" >&2 ;;
  "cosign attest") cp "$6" "$CALLS.sbom" ;;
esac
"""
"""Stands for docker, helm and cosign: writes down how it was called, and says the digests that theirs would."""


def released(folder: Path, tag: str, script: Path = ROOT / ".ci/release") -> subprocess.CompletedProcess[str]:
    """What the script does where this tag was pushed; the calls are in `folder`."""
    for name in ("docker", "helm", "cosign"):
        (folder / name).write_text(STUB)
        (folder / name).chmod(0o755)
    env = {
        "CALLS": str(folder / "calls"), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "GITHUB_REF_NAME": tag,
        "REGISTRY": "registry.example.com/team", "PYTHON": sys.executable,
        "GITHUB_WORKFLOW_REF": f"team/headroom/.github/workflows/release.yml@refs/tags/{tag}",
    }  # fmt: skip
    return subprocess.run([script], env=os.environ | env, capture_output=True, text=True, check=False)


def test_what_is_released_is_signed_and_verified_by_digest_with_its_bill_of_materials(tmp_path: Path) -> None:
    done = released(tmp_path, f"v{__version__}")
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    image, chart = "registry.example.com/team/headroom@sha256:11", "registry.example.com/team/charts/headroom@sha256:22"
    cosign = [(call.split()[1], call.split()[-1]) for call in calls if call.startswith("cosign ")]
    assert cosign == [
        ("sign", image), ("attest", image), ("sign", chart),
        ("verify", image), ("verify-attestation", image), ("verify", chart),
    ]  # fmt: skip
    signer = f"https://github.com/team/headroom/.github/workflows/release.yml@refs/tags/v{__version__}"
    assert all(f"--certificate-identity {signer} " in call for call in calls if call.startswith("cosign verify"))
    assert f"--tag registry.example.com/team/headroom:{__version__} " in calls[0]
    assert json.loads((tmp_path / "calls.sbom").read_text())["bomFormat"] == "CycloneDX"


def test_a_tag_that_is_not_the_version_releases_nothing(tmp_path: Path) -> None:
    done = released(tmp_path, "v99.0.0")
    assert done.returncode == 2
    assert f"the tag is v99.0.0, but autoscaler/__init__.py says {__version__}" in done.stderr
    assert not (tmp_path / "calls").exists()


def repository(folder: Path, *versions: str) -> Path:
    """A repository with these releases, in this order, and `.ci/rebuild` on top; returns the script."""
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com")
    shutil.copytree(ROOT / ".ci", folder / ".ci")
    (folder / "autoscaler").mkdir()
    (folder / "dev.py").write_text(
        "import sys\nfrom pathlib import Path\nPath(sys.argv[2]).write_text(str(Path.cwd()))\n"
    )
    subprocess.run([*git, "init", "--quiet"], check=True)
    for version in versions:
        (folder / "autoscaler/__init__.py").write_text(f'__version__ = "{version}"\n')
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", version], check=True)
        subprocess.run([*git, "tag", f"v{version}"], check=True)
    (folder / "autoscaler/__init__.py").write_text('__version__ = "99.0.0"\n')
    return folder / ".ci/rebuild"


def test_a_rebuild_takes_the_newest_release_and_leaves_its_tag_and_its_chart(tmp_path: Path) -> None:
    (tmp_path / "stubs").mkdir()
    (tmp_path / "repo").mkdir()
    script = repository(tmp_path / "repo", "1.10.0", "1.9.3", "1.11.0-rc1")
    done = released(tmp_path / "stubs", "main", script)
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "stubs/calls").read_text().splitlines()
    assert re.search(r" --pull --no-cache --push --tag registry.example.com/team/headroom:1\.10\.0-\d{8} ", calls[0])
    assert not [call for call in calls if call.startswith("helm ")]
    image = "registry.example.com/team/headroom@sha256:11"
    cosign = [(call.split()[1], call.split()[-1]) for call in calls if call.startswith("cosign ")]
    assert cosign == [("sign", image), ("attest", image), ("verify", image), ("verify-attestation", image)]
    assert (tmp_path / "stubs/calls.sbom").read_text().endswith("/v1.10.0"), "the sources are the release's"
    assert not list((tmp_path / "repo/.git/worktrees").glob("*"))


def test_without_a_release_nothing_is_rebuilt(tmp_path: Path) -> None:
    (tmp_path / "stubs").mkdir()
    (tmp_path / "repo").mkdir()
    done = released(tmp_path / "stubs", "main", repository(tmp_path / "repo"))
    assert (done.returncode, done.stdout) == (0, "rebuild: nothing has been released yet\n")
    assert not (tmp_path / "stubs/calls").exists()


def test_installations_that_are_shown_can_be_rendered() -> None:
    shown = [path.read_text() for path in (ROOT / "README.md", CHART / "README.md")]
    given = {
        pair
        for text in shown
        for pair in re.findall(r"^helm .*--set ([\w.]+=[\w./-]+)|`--set ([\w.]+=\w+)`", text, re.MULTILINE)
    }
    assert len(given) == 5
    for one, other in given:
        done = helm("template", "headroom", CHART, "--set", (one or other).replace("REGISTRY", "registry.example.com"))
        assert done.returncode == 0, done.stderr


def test_the_map_of_rooms_names_rooms_that_are_there() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"^\| [^|]* \| `([a-z/]*)", table, re.MULTILINE)
    assert len(named) > 6
    for name in named:
        assert (ROOT / name).exists(), name
