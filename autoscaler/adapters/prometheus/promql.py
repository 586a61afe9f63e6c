"""Queries from templates: values from outside enter as quoted strings only, and every query names a namespace.

A string of PromQL ends at the first quote that is not escaped, a regular expression matches whole values; both are
escaped here, so that a value can say nothing but itself.
"""

import re
from collections.abc import Iterable

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SPECIAL = re.compile(r"[^A-Za-z0-9_:\-\u0080-\U0010ffff]")


def quoted(value: str) -> str:
    """The value as a string of PromQL."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def any_of(values: Iterable[str]) -> str:
    """A regular expression (RE2) that matches exactly these values, as a string of PromQL."""
    return quoted("|".join(sorted(_SPECIAL.sub(lambda found: "\\" + found[0], value) for value in values)))


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


def past_rate(
    metric: str, workload: str, kind: str, *, window_s: int, namespace_label: str = "namespace", pod_label: str = "pod"
) -> str:
    """The rate of a counter summed over all pods that ``namespace/name`` ever had.

    Raises ValueError for what is no metric or label name, and KeyError for a kind whose pod names are not known.
    """
    namespace, _, name = workload.partition("/")
    if not namespace or not name:
        raise ValueError(f"{workload!r} is not namespace/name")
    (checked,) = _checked(_NAME, [metric])
    escaped = _SPECIAL.sub(lambda found: "\\" + found[0], name)
    space, pod = _checked(_LABEL, [namespace_label, pod_label])
    matchers = f"{space}={quoted(namespace)},{pod}=~{quoted(escaped + POD_NAMES[kind])}"
    return f"sum(rate({checked}{{{matchers}}}[{int(window_s)}s]))"


def _checked(form: re.Pattern[str], names: Iterable[str]) -> tuple[str, ...]:
    listed = tuple(names)
    for name in listed:
        if form.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a metric or label")
    if not listed:
        raise ValueError("a query needs names")
    return listed
