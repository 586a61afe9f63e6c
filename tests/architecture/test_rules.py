"""The rules of the house that no linter states: what the core may import, sizes, and that linters see every room."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Module:
    """What the rules ask of one module."""

    imports: frozenset[str]
    """Full names."""
    excess: tuple[str, ...]
    """What of it is too long, with what to do."""


BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where statements stand within a statement; there are none within an expression."""


def statements(source: str) -> Iterator[ast.AST]:
    """Every statement, those within others among them."""
    left: list[ast.AST] = [ast.parse(source)]
    while left:
        node = left.pop()
        yield node
        for block in BLOCKS:
            left += getattr(node, block, ())


def taken_apart(source: str) -> Module:
    """What the rules ask of a module of this text."""
    imports: set[str] = set()
    excess = ["split the file: 400 lines is the stop"] if source.count("\n") > 400 else []
    for node in statements(source):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imports.add(node.module or ".")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 70:
            excess.append(f"split {node.name}: 70 lines is the stop")
    return Module(frozenset(imports), tuple(excess))


@functools.cache
def modules() -> dict[str, Module]:
    """Every module of the package by its path. They are read once for all rules: that takes most of the time."""
    return {name_of(path): taken_apart(path.read_text()) for path in MODULES}


def outside_of_core(imports: frozenset[str]) -> set[str]:
    """The imports of a core module that are not on the list."""
    own = ("autoscaler.core", "autoscaler.errors")
    foreign = {name for name in imports if not any(name == o or name.startswith(f"{o}.") for o in own)}
    return {name for name in foreign if name.split(".")[0] not in CORE_MAY_IMPORT or name.startswith("numpy.random")}


def test_the_core_imports_numpy_itself_and_harmless_parts_of_the_standard_library() -> None:
    core = [name_of(path) for path in CORE_MODULES]
    assert len(core) > 100
    foreign = {name: outside_of_core(modules()[name].imports) for name in core}
    assert {name: found for name, found in foreign.items() if found} == {}


@pytest.mark.parametrize(
    "planted",
    ["import time", "import asyncio", "from os import environ", "import numpy.random", "from scipy import stats",
     "from autoscaler.sim import plant", "import secrets", "from . import types",
     "def f():\n  try: pass\n  except E:\n    with x:\n      import time"],
)  # fmt: skip
def test_the_list_refuses_what_would_make_the_core_impure(planted: str) -> None:
    assert outside_of_core(taken_apart(planted).imports) != set()


def test_no_module_is_too_long_to_read() -> None:
    assert {name: module.excess for name, module in modules().items() if module.excess} == {}


def test_a_file_of_401_lines_and_a_function_of_71_are_too_long() -> None:
    function = "class C:\n  async def f():\n" + "    pass\n" * 69
    assert taken_apart("\n" * 400).excess == taken_apart(function).excess == ()
    assert taken_apart("\n" * 401).excess == ("split the file: 400 lines is the stop",)
    assert taken_apart(function + "    pass\n").excess == ("split f: 70 lines is the stop",)


def test_every_room_is_a_package_so_that_the_contracts_see_it() -> None:
    folders = {path.parent for path in MODULES}
    assert [name_of(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
