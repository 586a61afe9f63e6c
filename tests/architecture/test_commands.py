"""Commands that documents tell to type: each parses as it stands, so none lacks an option."""

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from autoscaler.cli.main import SUMMARIES, load
from tests.architecture.test_documents import LINKED
from tests.conftest import ROOT

WORDS: Final = {"SECONDS": "60", "N": "1"}
"""What stands for a number in a document."""


def commands(page: Path) -> list[list[str]]:
    """Arguments of every whole `headroom …` in a page, inline or in a block; one with an ellipsis or without a value is
    a name only."""
    text = page.read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    typed = [line for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    inline = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    found = []
    for told in (*typed, *(" ".join(span.split()) for span in inline if " --" in span)):
        command = re.split(r"\s#|\s[|<>]\s?|&&", told.removeprefix("$ ").removeprefix("python3 dev.py "))[0]
        if command.startswith("headroom ") and "…" not in command and "[" not in command:
            found.append([WORDS.get(word, word) for word in shlex.split(command)[1:]])
    return [words for words in found if words and words[0] in SUMMARIES and words[-1] != "--config"]


TOLD: Final = [(page, words) for page in LINKED for words in commands(page)]


def test_the_pages_of_first_use_name_commands() -> None:
    pages = [page for page, _ in TOLD]
    assert pages.count(ROOT / "README.md") >= 12
    assert pages.count(ROOT / "loadtests/findings/scale.md") >= 4


@pytest.mark.parametrize(
    ("page", "words"), TOLD, ids=[f"{page.relative_to(ROOT)} {shlex.join(words)}" for page, words in TOLD]
)
def test_every_command_that_is_told_can_be_parsed(page: Path, words: list[str]) -> None:
    """A usage error names what is missing."""
    name, *arguments = words
    assert load(name).make_context(name, arguments).params, page
