"""What the controller's settings say of themselves: the docstrings below their fields, by dotted path."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import Any, get_args

from pydantic import BaseModel

Said = Mapping[str, str]
"""Dotted path of a setting -> its words, on one line."""


def said_of(model: type[BaseModel], path: str = "") -> dict[str, str]:
    """The words of `model` and of all models inside it. An item of a list or of a map is `[]` or `*`."""
    found = {f"{path}{name}": words for name, words in _own(model).items()}
    for name, field in model.model_fields.items():
        for inner, step in _inside(field.annotation, f"{path}{name}"):
            found.setdefault(step.rstrip("."), " ".join((inner.__doc__ or "").split()))
            found |= said_of(inner, step)
    return found


def _inside(annotation: Any, path: str) -> Iterator[tuple[type[BaseModel], str]]:
    """The models that a field's type is made of, and where each of them stands."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, f"{path}."
        return
    origin = getattr(annotation, "__origin__", None)
    step = "[]" if origin is tuple else ".*" if origin is dict else ""
    for part in get_args(annotation):
        yield from _inside(part, path + step)


def _own(model: type[BaseModel]) -> dict[str, str]:
    (definition,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    found, name = {}, None
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name is not None:
            found[name] = " ".join(str(node.value.value).split())
        else:
            name = None
    return found
