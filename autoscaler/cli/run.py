"""`headroom run`: the controller itself, until it is told to end or has lost the lead."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer


def run(
    config: Annotated[
        Path | None, typer.Option("--config", help="Settings, in YAML or JSON; else HEADROOM_CONFIG.", metavar="FILE")
    ] = None,
) -> None:
    """Watch the cluster, decide and act while this replica leads.

    Settings come from the file, and from HEADROOM_* variables, which win. The exit code is 0 after a signal, 2 for
    settings that cannot be used, 3 after the lead was lost.
    """
    from autoscaler.app import live
    from autoscaler.settings.load import load_settings

    raise typer.Exit(asyncio.run(live.run(load_settings(config=config))))
