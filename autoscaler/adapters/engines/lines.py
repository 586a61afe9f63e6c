"""The samples of a few names out of a Prometheus text page, without reading the rest of it.

One compiled expression walks over the bytes; labels are parsed only on lines whose name was asked for, and label texts
that were seen before are not parsed again. A line that cannot be understood yields nothing; nothing here raises. Metric
names in quotes (the UTF-8 form) are not recognised: no engine writes them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

Sample = tuple[str, Mapping[str, str], float]
"""Name, labels, value; the value may be NaN or infinite. A timestamp on the line is ignored."""

_LABELS = rb'\{((?:[^"}\n]|"(?:[^"\\\n]|\\[^\n])*+")*+)\}'
_TAIL = rb"[ \t]*+(?:" + _LABELS + rb"[ \t]*+|(?<=[ \t]))([^ \t\r\n]++)[^\n]*+(?=\n)"
_QUOTED = r'"((?:[^"\\]|\\.)*+)"'
_LABEL = re.compile(rf"\s*(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_QUOTED})\s*=\s*{_QUOTED}\s*(?:,|$)", re.DOTALL)
_ESCAPE = re.compile(r"\\[\\n\"]")
_PLAIN = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}
_CUT_NAME = re.compile(rb"[ \t]*([^{ \t#]*)([{ \t]?)")

CACHED_BYTES = 1024
"""Label texts up to this length are remembered; engines write a hundred bytes."""

NO_LABELS: Mapping[str, str] = MappingProxyType({})


class LineFilter:
    """Yields the samples of the names it was made for."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.encode(): name for name in names}
        # Longest first, so that a name is not taken for the beginning of a longer one.
        listed = b"|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        self._line = re.compile(rb"\n[ \t]*+(" + listed + rb")(?=[{ \t])" + _TAIL) if listed else None

    def samples(self, page: bytes) -> Iterator[Sample]:
        """The samples in the page's order.

        A last line without line end was cut off. It is dropped together with all lines of its name: what is summed
        over them would be too small, and look like a counter that was reset.
        """
        if self._line is None:
            return
        cut = _cut(page)
        for match in self._line.finditer(b"\n" + page):
            name, text, number = match.groups()
            if cut is not None and cut(name):
                continue
            labels = NO_LABELS if not text else _labels(text) if len(text) <= CACHED_BYTES else _parse(text)
            if labels is None or b"_" in number:
                continue
            try:
                value = float(number)
            except ValueError:
                continue
            yield self._names[name], labels, value


class _Cut:
    """Whether a name may be the one of the line that was cut off."""

    def __init__(self, name: bytes, whole: bool) -> None:
        self._name = name
        self._whole = whole

    def __call__(self, name: bytes) -> bool:
        return name == self._name if self._whole else name.startswith(self._name)


def _cut(page: bytes) -> _Cut | None:
    if not page or page.endswith(b"\n"):
        return None
    found = _CUT_NAME.match(page, page.rfind(b"\n") + 1)
    if found is None or not found[1]:
        return None
    return _Cut(found[1], whole=bool(found[2]))


def _parse(text: bytes) -> Mapping[str, str] | None:
    """The labels between the braces; None when the text is not a list of labels or names one twice."""
    plain = text.decode("utf-8", "replace").strip()
    labels: dict[str, str] = {}
    at = 0
    while at < len(plain):
        found = _LABEL.match(plain, at)
        if found is None:
            return None
        bare, quoted, value = found.groups()
        name = bare if bare is not None else _unescaped(quoted)
        if name in labels:
            return None
        labels[name] = _unescaped(value)
        at = found.end()
    return labels


_labels = lru_cache(maxsize=4096)(_parse)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _PLAIN[found[0]], text) if "\\" in text else text
