"""Where `headroom`, `kubectl headroom` and `python -m autoscaler` begin: an early Ctrl-C ends without a traceback.

Apart from `main`, which loads the parser itself; nothing is imported here before the interrupt is waited for.
"""

import sys


def start(prog_name: str | None = None) -> None:
    """Load the command line and run it under the name it was called by, or `prog_name`; it ends the process."""
    try:
        from autoscaler.cli.main import app

        app(prog_name=prog_name)
    except KeyboardInterrupt:
        sys.exit(130)  # `output.INTERRUPTED`, which is not loaded yet
