"""`kubectl_complete-headroom`: what kubectl starts when somebody asks it to complete `kubectl headroom …`.

Enters: the words so far, the last of them unfinished. Leaves: a line per possibility with what it is behind a tab, then
a directive of kubectl's completion (spf13/cobra, site/content/completions): `:4`, files are not what is meant, or `:0`.
"""

import os
import shlex
import sys
from typing import Final

FILES: Final = ":0"
NO_FILES: Final = ":4"


def complete() -> None:
    """Print the possibilities for the words in ``sys.argv``."""
    words = sys.argv[1:]
    # Typer's protocol for fish is the one that has a line per possibility with its description.
    os.environ |= {
        "_HEADROOM_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": shlex.join(["headroom", *words[:-1]]) + f" {words[-1] if words else ''}",
    }
    from autoscaler.cli.main import app

    try:
        app(prog_name="headroom")
    finally:
        after_option = len(words) > 1 and words[-2].startswith("--")
        sys.stdout.write(f"{FILES if after_option else NO_FILES}\n")
        sys.stdout.flush()
