"""Settings from a file, from ``HEADROOM_*`` variables and from flags: the latter win over the former.

A variable names a field after its parts, as in ``HEADROOM_SCRAPE__INTERVAL_S``; lists and maps are JSON. Messages name
the source that a faulty value came from, which is why the sources are merged here, in the open.
"""

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource

from autoscaler.api.model_faults import FieldFault, first_fault
from autoscaler.errors import InputError
from autoscaler.settings.model import ENV_PREFIX, NESTED, Settings
from autoscaler.settings.parts import Part

CONFIG_VARIABLE: Final = f"{ENV_PREFIX}CONFIG"
_NO_SETTINGS: Final = frozenset(ENV_PREFIX + name for name in ("CONFIG", "SERVER", "TOKEN", "CA_FILE"))
"""Variables that say where something is: the file, and for commands the controller, and how they ask it."""

_SERVICE_LINK: Final = re.compile(
    r"(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_.+)?)=.*|(.+_)?PORT=(tcp|udp|sctp)://.*"
)
"""What the kubelet sets in every pod for a Service whose name begins with ours (enableServiceLinks)."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one source says, and what it is called in messages."""

    name: str
    values: Mapping[str, Any]


class _Environment(EnvSettingsSource):
    """Leaves a text that is no JSON as it is, for the model to refuse by the variable's name."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


def load_settings(
    *, config: Path | None = None, flags: Mapping[str, Any] | None = None, text: tuple[str, bytes] | None = None
) -> Settings:
    """The settings in force: `flags` (as nested fields) over the environment over the file over the defaults.

    The file is `config`, else what ``HEADROOM_CONFIG`` names, else `text`: what it is called, and YAML. Raises
    InputError.
    """
    _refuse_unknown_variables()
    path = config or named_file()
    name, values = (str(path), _read(path)) if path else ("", {}) if text is None else (text[0], _decoded(*text))
    layers = (
        _Layer("the command line", flags or {}),
        _Layer("the environment", _Environment(Settings)()),
        _Layer(name, values),
    )
    merged: Mapping[str, Any] = {}
    for layer in layers:
        merged = _under(merged, layer.values)
    try:
        return Settings(**merged)
    except ValidationError as error:
        raise InputError(_message(first_fault(error, Settings), layers)) from error


def named_file() -> Path | None:
    """The file of settings that the environment names, if it does."""
    named = os.environ.get(CONFIG_VARIABLE)
    return Path(named) if named else None


def _refuse_unknown_variables() -> None:
    for name, value in sorted(os.environ.items()):
        field = name.upper().removeprefix(ENV_PREFIX)
        if field == name.upper() or name.upper() in _NO_SETTINGS or _SERVICE_LINK.match(f"{field}={value}"):
            continue
        if field.lower().split(NESTED)[0] not in Settings.model_fields:
            raise InputError(f"{name}: unknown variable; {_remedy(name.upper(), _known_variables())}")


def _known_variables() -> list[str]:
    known = [CONFIG_VARIABLE]
    for name, field in Settings.model_fields.items():
        part = field.annotation
        inner = part.model_fields if isinstance(part, type) and issubclass(part, Part) else ()
        known += [ENV_PREFIX + NESTED.join((name, field)).upper() for field in inner] or [ENV_PREFIX + name.upper()]
    return known


def _read(path: Path) -> dict[str, Any]:
    """The fields in a file of YAML, or of JSON if its name says so."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a file that can") from error
    return _decoded(str(path), text)


def _decoded(source: str, text: bytes) -> dict[str, Any]:
    """The fields in YAML, or in JSON if the source's name says so."""
    try:
        decode = msgspec.json.decode if source.endswith(".json") else msgspec.yaml.decode
        values = decode(text, type=dict[str, Any] | None) or {}
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        raise InputError(f"{source}: {' '.join(str(error).split())}; give a map of settings in YAML") from error
    for name in values:
        if name not in Settings.model_fields:
            raise InputError(f"{source}: {name}: unknown field; {_remedy(name, Settings.model_fields)}")
    return values


def _remedy(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"


def _under(upper: Mapping[str, Any], lower: Mapping[str, Any]) -> dict[str, Any]:
    """`upper`, and what `lower` says where `upper` is silent."""
    merged = dict(lower)
    for name, value in upper.items():
        below = merged.get(name)
        merged[name] = _under(value, below) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return merged


def _message(fault: FieldFault, layers: Iterable[_Layer]) -> str:
    """The fault after its sources: those that speak of the faulty value, the one that won for a single value."""
    path = fault.path
    sources: list[str] = []
    while not sources and path:
        for layer in layers:
            found = _at(layer.values, path)
            if found is None or (sources and not isinstance(found, Mapping)):
                continue
            variables = _variables(path) if layer.name == "the environment" else []
            sources += variables or [layer.name]
        path = path[:-1]
    first, *rest = fault.path
    return ", ".join(sources) + ": " + FieldFault(tuple(rest), fault.text).after(str(first))


def _at(values: Any, path: Iterable[int | str]) -> Any:
    """What stands at `path`; None where nothing does."""
    for part in path:
        if isinstance(values, Mapping):
            values = values.get(str(part))
        elif isinstance(values, list) and isinstance(part, int) and part < len(values):
            values = values[part]
        else:
            return None
    return values


def _variables(path: tuple[int | str, ...]) -> list[str]:
    """The variables that say something at `path`: it itself, a part of it, or a JSON value that contains it."""
    name = ENV_PREFIX + NESTED.join(str(part) for part in path).upper()
    return [
        given
        for given in sorted(os.environ)
        if given.upper() == name or given.upper().startswith(name + NESTED) or name.startswith(given.upper() + NESTED)
    ]
