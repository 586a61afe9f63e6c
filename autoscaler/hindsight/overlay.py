"""Other settings over a recorded policy: `key=value` texts in, a policy with exactly these changed out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from autoscaler.api.lines import decode_value
from autoscaler.api.policy import MOST_REPLICAS, compile_params, read_policy
from autoscaler.core.params import Params
from autoscaler.errors import InputError

_WIDEST: Final = {"min_replicas": 0, "max_replicas": MOST_REPLICAS}
"""A record that no single change contradicts, to refuse what can be refused before anything is read."""


class SettingError(InputError):
    """A change that cannot be, alone or on what is recorded; no line of the record is at fault."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """Settings that replace a policy's own; an empty one changes nothing."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    """By field as audit lines spell it; a field of `slo` is nested."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Overlay":
        """From texts such as `max_replicas=20` or `slo.wait_s=5`. Raises InputError naming the text."""
        changes: dict[str, Any] = {}
        for text in texts:
            name, found, value = text.partition("=")
            if not (found and name):
                raise InputError(f"--set {text!r}: not key=value; give one such as max_replicas=20")
            owner, _, inner = name.partition(".")
            within: object = changes.setdefault(owner, {}) if inner else changes
            if not isinstance(within, dict) or (inner or name) in within:
                raise InputError(f"--set {name}: given twice; give every setting once")
            within[inner or name] = _value(value)
        overlay = cls(changes)
        if changes:
            overlay.params(_WIDEST)
        return overlay

    def params(self, recorded: Mapping[str, Any]) -> Params:
        """The core's parameters for a recorded policy with the changes in force.

        Raises SettingError where only the changes make it one that is not legal, InputError where it was none before.
        """
        merged = dict(recorded)
        for name, value in self.changes.items():
            before = merged.get(name)
            merged[name] = {**before, **value} if isinstance(before, Mapping) and isinstance(value, dict) else value
        try:
            return compile_params(read_policy(merged))
        except InputError as error:
            if not self.changes:
                raise
            compile_params(read_policy(recorded))
            raise SettingError(f"--set {str(error).replace('policy.', '')}") from error


@dataclass(slots=True)
class Compiled:
    """Parameters of policies as they are recorded, each made once."""

    overlay: Overlay = field(default_factory=Overlay)
    _made: dict[bytes, Params] = field(default_factory=dict)

    def params(self, policy_json: bytes) -> Params:
        """The core's parameters. Raises InputError where the policy, or the change to it, is not legal."""
        made = self._made.get(policy_json)
        if made is None:
            recorded = decode_value(policy_json)
            if not isinstance(recorded, dict):
                raise InputError("policy: not an object; give lines of an audit file")
            made = self._made[policy_json] = self.overlay.params(recorded)
        return made


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
