"""Texts as the parts of manifests: names, scalars, comments.

Enters: words of a record, which may hold anything. Leaves: YAML that means what was meant.
"""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

_WIDTH: Final = 116
_PLAIN: Final = re.compile(r"[a-z][a-z0-9.-]*[a-z0-9]")
_WORDS_OF_YAML: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off"})


def slug(text: str, most: int, *, dots: bool = True) -> str:
    """The text as a name of Kubernetes, `most` characters at most; empty where nothing of it can be in one."""
    kept = re.sub(r"[^a-z0-9.-]+" if dots else r"[^a-z0-9-]+", "-", text.lower())
    parts = (re.sub(r"^[-]+|[-]+$", "", part) for part in kept.split("."))
    return ".".join(part for part in parts if part)[:most].rstrip("-.")


def scalar(text: str) -> str:
    """The text as a YAML scalar."""
    return text if _PLAIN.fullmatch(text) and text not in _WORDS_OF_YAML else json.dumps(text)


def comment(*texts: str) -> str:
    """Each text as a paragraph of comment lines, with a line's end."""
    return "\n".join(line for text in texts for line in commented("", text)) + "\n"


def commented(indent: str, text: str) -> Iterator[str]:
    """The text as comment lines; line ends and what else YAML cannot hold in a comment become spaces."""
    clean = "".join(char if char.isprintable() else " " for char in text)
    wrapped: Iterable[str] = textwrap.wrap(clean, _WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
    return (f"{indent}# {line}" for line in wrapped)
