"""Label selectors as people write them ("app=gateway,tier!=test,zone"), matched here.

Enters: a selector and labels. Leaves: whether it matches; set-based forms (in, notin) are refused.
"""

import re
from collections.abc import Mapping
from typing import Final

from autoscaler.errors import InputError

_TERM: Final = re.compile(r"(!?)\s*([A-Za-z0-9][-A-Za-z0-9_./]*)\s*(?:(==|=|!=)\s*([-A-Za-z0-9_.]*))?")


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether every term of the selector holds. Raises InputError for one that is not written so."""
    return all(_holds(term.strip(), labels) for term in selector.split(","))


def _holds(term: str, labels: Mapping[str, str]) -> bool:
    parts = _TERM.fullmatch(term)
    if parts is None or (parts[1] and parts[3]):
        raise InputError(f"label selector: {term!r} is none of key=value, key!=value, key, !key")
    absent, key, operator, value = parts.groups()
    if operator is None:
        return (key in labels) != bool(absent)
    return (labels.get(key) == value) == (operator != "!=")
