"""Results of what is frozen (the bounds and the rivals), kept on disk, so that only our own policy runs again.

Enters: an instance. Leaves: its bounds and a rival's frontier: from disk where the same code has met the same input
before, else computed and kept. The key is a SHA-256 over the arrivals, the plant's spec, the versions of numpy and
scipy, and the syntax of the modules that decide the result: a comment changes nothing, a constant everything. A setting
added to a rival's sweep runs alone; the settings it had are kept.
"""

import ast
import hashlib
import os
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import scipy

import autoscaler
from autoscaler.cli.output import write_atomically
from autoscaler.sim.bounds import reference
from autoscaler.sim.instance import Instance
from autoscaler.sim.rivals import RIVALS, make_rival, view_of
from autoscaler.sim.score import Reference, score
from autoscaler.sim.simulate import run
from autoscaler.sim.sweep import Frontier, Point

PACKAGE = Path(autoscaler.__file__).parent
PLANT = (
    "core/types.py", "sim/plant.py", "sim/policy.py", "sim/score.py", "sim/simulate.py", "sim/traffic.py",
    "sim/warmup.py", "sim/serving/__init__.py", "sim/serving/fluid.py", "sim/bounds.py",
)  # fmt: skip
"""Modules that decide every result."""
_RIVALS = "autoscaler.sim.rivals"
_SWEPT = "KNOBS"
"""The attribute that lists a rival's settings: no part of its code, since each setting is kept by itself."""


def cache_folder() -> Path:
    """Where results are kept: $XDG_CACHE_HOME or ~/.cache, below `headroom-loadtests`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "headroom-loadtests"


def bounds_of(instance: Instance) -> Reference:
    """D1 and D2 of the instance."""
    path = _path(instance, "bounds", PLANT, "npz")
    if path.exists():
        with np.load(path) as kept:
            return Reference(float(kept["d1_s"]), float(kept["d2_s"]), kept["d2_per_step_s"])
    made = reference(instance.traffic, instance.spec)
    if made.d1_s is not None and made.d2_s is not None and made.d2_per_step_s is not None:
        fields = {"d1_s": np.array(made.d1_s), "d2_s": np.array(made.d2_s), "d2_per_step_s": made.d2_per_step_s}
        with write_atomically(path) as file:
            np.savez_compressed(file, allow_pickle=False, **fields)
    return made


def frontier_of(instance: Instance, rival: str) -> Frontier:
    """The rival swept in hindsight over all its settings."""
    kind = RIVALS[rival]
    path = _path(instance, rival, (*PLANT, *rival_modules(rival)), "json")
    kept = msgspec.json.decode(path.read_bytes(), type=list[Point]) if path.exists() else []
    points = {point.knob: point for point in kept}
    if not points.keys() >= set(kind.KNOBS):
        bounds, view = bounds_of(instance), view_of(instance.traffic, instance.spec)
        for knob in kind.KNOBS:
            if knob not in points:
                done = run(instance.traffic, instance.spec, make_rival(rival, view, knob))
                points[knob] = Point(knob, score(done, bounds))
        with write_atomically(path) as file:
            file.write(msgspec.json.encode(list(points.values())))
    return Frontier(rival, tuple(points[knob] for knob in kind.KNOBS))


def rival_modules(rival: str) -> tuple[str, ...]:
    """The rival's module and those of its neighbours that it imports, by their path in the package."""
    found: dict[str, None] = {}
    open_names = [type_module(rival)]
    while open_names:
        name = open_names.pop().removeprefix("autoscaler.").replace(".", "/") + ".py"
        if name not in found:
            found[name] = None
            nodes = ast.walk(ast.parse((PACKAGE / name).read_text()))
            imported = (node.module or "" for node in nodes if isinstance(node, ast.ImportFrom))
            open_names += [module for module in imported if module.startswith(_RIVALS)]
    return tuple(sorted(found))


def type_module(rival: str) -> str:
    """The full name of the module that holds the rival's class."""
    return str(vars(RIVALS[rival])["__module__"])


def _path(instance: Instance, what: str, modules: tuple[str, ...], suffix: str) -> Path:
    traffic = instance.traffic
    digest = hashlib.sha256(traffic.arrivals.tobytes())
    facts = (what, traffic.step_s, traffic.onsets_s, instance.spec, np.__version__, scipy.__version__)
    digest.update(repr(facts).encode())
    digest.update(code_digest(modules).encode())
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{what}-{digest.hexdigest()[:32]}.{suffix}"


@cache
def code_digest(modules: tuple[str, ...]) -> str:
    """SHA-256 over the syntax of modules of the package."""
    digest = hashlib.sha256()
    for name in modules:
        digest.update(syntax((PACKAGE / name).read_text()).encode())
    return digest.hexdigest()


def syntax(source: str) -> str:
    """The source as a syntax tree without comments, layout, strings that stand alone and lists of settings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_passed_over(line)]  # type: ignore[attr-defined]  # it has one
    return ast.dump(tree)


def _is_passed_over(line: ast.stmt) -> bool:
    if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
        return line.target.id == _SWEPT
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
