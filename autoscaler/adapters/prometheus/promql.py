"""Queries from templates: values from outside enter as quoted strings only, and every query names a namespace.

A string of PromQL ends at the first quote that is not escaped, a regular expression matches whole values; both are
escaped here, so that a value can say nothing but itself.
"""

import re
from collections.abc import Iterable

from autoscaler.errors import InputError

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SPECIAL = re.compile(r"[^A-Za-z0-9_:\-\u0080-\U0010ffff]")


def quoted(value: str) -> str:
    """The value as a string of PromQL."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def any_of(values: Iterable[str]) -> str:
    """A regular expression (RE2) that matches exactly these values, as a string of PromQL."""
    return quoted("|".join(sorted(exactly(value) for value in values)))


def selector(names: Iterable[str], namespace: tuple[str, str], pods: tuple[str, Iterable[str]]) -> str:
    """Series of these metric names, of the pods with these names in one namespace.

    `namespace` and `pods` are a label and its value or values. Raises ValueError for what is no metric or label name,
    and for an empty list, which would match every series without that label.
    """
    wanted = _checked(_NAME, names)
    listed = tuple(pods[1])
    if not listed or not namespace[1]:
        raise ValueError("a query without pods or namespace would match what belongs to nobody")
    matchers = (
        f"__name__=~{any_of(wanted)}",
        f"{_checked(_LABEL, [namespace[0]])[0]}={quoted(namespace[1])}",
        f"{_checked(_LABEL, [pods[0]])[0]}=~{any_of(listed)}",
    )
    return "{" + ",".join(matchers) + "}"


POD_NAMES = {
    "Deployment": r"-[a-z0-9]{1,10}-[a-z0-9]{5}",
    "StatefulSet": r"-[0-9]+",
    "LeaderWorkerSet": r"-[0-9]+(-[0-9]+)?",
}
"""Kind -> what its controller puts behind a workload's name to make a pod's."""


_MATCHER = re.compile(
    r"""\s*(?P<label>[a-zA-Z_][a-zA-Z0-9_]*)\s*(?P<op>=~|!~|!=|=)\s*"""
    r"""(?:"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'|`(?P<raw>[^`]*)`)\s*(?:,|$)"""
)
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


def parse_matchers(text: str) -> tuple[tuple[str, str, str], ...]:
    """What a person writes between the braces of a selector, as (label, operator, value).

    Raises InputError for what is no list of matchers: a brace or a quote outside of a value ends the query otherwise.
    """
    found, at = [], 0
    while at < len(text.rstrip()):
        matcher = _MATCHER.match(text, at)
        if matcher is None:
            raise InputError(
                f'selector {text!r}: {text[at:]!r} is no matcher; write label="value", separated by commas'
            )
        raw = matcher["raw"]
        quoted_part = matcher["double"] if matcher["double"] is not None else matcher["single"]
        value = raw if quoted_part is None else _ESCAPED.sub(lambda one: _plain(text, one[1]), quoted_part)
        found.append((matcher["label"], matcher["op"], value))
        at = matcher.end()
    if not found:
        raise InputError(f'selector {text!r}: it is empty; write label="value"')
    return tuple(found)


def written(wanted: Iterable[tuple[str, str, str]]) -> str:
    """Matchers as PromQL, without braces; each value is quoted anew."""
    return ",".join(f"{label}{op}{quoted(value)}" for label, op, value in wanted)


def exactly(value: str) -> str:
    """A regular expression (RE2), not quoted, that matches this value and no other."""
    return _SPECIAL.sub(lambda found: "\\" + found[0], value)


def _plain(text: str, escaped: str) -> str:
    if escaped not in _ESCAPES:
        raise InputError(f"selector {text!r}: \\{escaped} is no escape that is understood here; write \\\\{escaped}")
    return _ESCAPES[escaped]


def _checked(form: re.Pattern[str], names: Iterable[str]) -> tuple[str, ...]:
    listed = tuple(names)
    for name in listed:
        if form.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a metric or label")
    if not listed:
        raise ValueError("a query needs names")
    return listed
