"""The rules of the house that no linter states: what the core may import, sizes, and that linters see every room."""

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "autoscaler"
MODULES = sorted(PACKAGE.rglob("*.py"))
CORE_MODULES = sorted((PACKAGE / "core").rglob("*.py"))

CORE_MAY_IMPORT = {
    "abc", "bisect", "collections", "contextlib", "copy", "dataclasses", "enum", "functools", "hashlib", "heapq",
    "itertools", "json", "math", "numpy", "operator", "re", "struct", "types", "typing", "zlib",
}  # fmt: skip
"""numpy, and parts of the standard library that neither look at the world nor change it."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports_of(source: str) -> set[str]:
    """The full names of the modules that `source` imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or ".")
    return names


def outside_of_core(source: str) -> set[str]:
    """The imports of a core module that are not on the list."""
    own = ("autoscaler.core", "autoscaler.errors")
    foreign = {name for name in imports_of(source) if not any(name == o or name.startswith(f"{o}.") for o in own)}
    return {name for name in foreign if name.split(".")[0] not in CORE_MAY_IMPORT or name.startswith("numpy.random")}


@pytest.mark.parametrize("path", CORE_MODULES, ids=name_of)
def test_the_core_imports_numpy_itself_and_harmless_parts_of_the_standard_library(path: Path) -> None:
    assert outside_of_core(path.read_text()) == set()


@pytest.mark.parametrize(
    "planted",
    ["import time", "import asyncio", "from os import environ", "import numpy.random", "from scipy import stats",
     "from autoscaler.sim import plant", "import secrets", "from . import types"],
)  # fmt: skip
def test_the_list_refuses_what_would_make_the_core_impure(planted: str) -> None:
    assert outside_of_core(planted) != set()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_is_too_long_to_read(path: Path) -> None:
    source = path.read_text()
    assert source.count("\n") <= 400, "split the file: 400 lines is the stop"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 70, f"split {node.name}: 70 lines is the stop"


def test_every_room_is_a_package_so_that_the_contracts_see_it() -> None:
    folders = {path.parent for path in MODULES}
    assert [name_of(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
