"""The linters fire: every forbidden import or call planted in a small copy of the house is reported."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PLANTED = {
    "autoscaler.adapters.prometheus": "kubernetes_asyncio",
    "autoscaler.core.capacity": "autoscaler.core.engine",
    "autoscaler.core.demand": "autoscaler.core.scale",
    "autoscaler.core.forecast": "sklearn",
    "autoscaler.core.observe": "asyncio",
    "autoscaler.core.types": "os",
    "autoscaler.fitting": "rich",
    "autoscaler.record": "autoscaler.sim",
    "autoscaler.runtime": "autoscaler.sim",
    "autoscaler.settings": "scipy",
    "autoscaler.sim": "aiohttp",
}
"""Module -> what it may not import."""

LAWFUL = {
    "autoscaler.adapters.kube.client": "kubernetes_asyncio",
    "autoscaler.cli": "autoscaler.runtime",
    "autoscaler.core.engine": "autoscaler.core.observe",
    "autoscaler.core.scale": "numpy",
    "autoscaler.fitting.boosting": "sklearn",
    "autoscaler.sim.bounds": "scipy",
}
"""Module -> what it may."""

CLOCKS_AND_DICE = {
    "import time\nnow = time.time()": "TID251",
    "from time import monotonic\nnow = monotonic()": "TID251",
    "import datetime as dt\nnow = dt.datetime.now(dt.UTC)": "TID251",
    "import asyncio\nasync def f(c):\n    await asyncio.create_task(c)": "TID251",
    "import numpy as np\nx = np.random.normal()": "TID251",
    "import random\nx = random.random()": "TID251",
    "import os\nx = os.environ": "TID251",
    "try:\n    x = 1\nexcept Exception:\n    x = 2": "BLE001",
}


def linted(house: Path, imports: dict[str, str]) -> str:
    """The report of import-linter, under the project's own contracts, on a house whose modules have these imports."""
    shutil.copy(ROOT / "pyproject.toml", house)
    for name in ("autoscaler", *PLANTED, *LAWFUL, *imports):
        folder = house
        for part in name.split("."):
            folder /= part
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").touch()
        (folder / "__init__.py").write_text(f"import {imports[name]}\n" if imports.get(name) else "")
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([tool, "--no-cache"], cwd=house, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One run over a house with every plant."""
    return linted(tmp_path_factory.mktemp("house"), PLANTED | {"autoscaler.newroom": ""})


def test_a_house_in_order_passes(tmp_path: Path) -> None:
    report = linted(tmp_path, LAWFUL)
    assert " 0 broken" in report, report


@pytest.mark.parametrize("module", PLANTED)
def test_a_forbidden_import_is_reported_where_it_stands(module: str, report: str) -> None:
    assert f"{module} -> {PLANTED[module]} (l.1)" in report, report


def test_a_room_that_nobody_placed_in_the_layers_is_reported(report: str) -> None:
    assert "not listed as layers:\n\n- autoscaler.newroom" in report, report


def test_every_contract_is_broken_by_some_plant(report: str) -> None:
    assert "Contracts: 0 kept" in report, report


@pytest.mark.parametrize(("source", "rule"), CLOCKS_AND_DICE.items())
def test_clocks_dice_and_broad_excepts_are_reported(source: str, rule: str) -> None:
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--no-cache", "--output-format=concise"]
    done = subprocess.run(
        [*ruff, "--stdin-filename", "autoscaler/runtime/steps.py", "-"],
        cwd=ROOT,
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert rule in done.stdout, done.stdout + done.stderr
