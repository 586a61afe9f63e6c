"""Ports for runs that keep nothing: a record that goes nowhere, a state that begins and ends empty."""

from collections.abc import Mapping, Sequence
from typing import Any


class Nowhere:
    """A record sink that keeps nothing."""

    async def write(self, lines: Sequence[bytes]) -> None:
        """Take the lines and forget them."""


class Forgetful:
    """A state store for runs that begin from nothing and leave nothing."""

    async def load(self) -> Mapping[str, dict[str, Any]]:
        """Nothing."""
        return {}

    async def save(self, checkpoints: Mapping[str, dict[str, Any]]) -> None:
        """Take the checkpoints and forget them."""
