"""`headroom explain`: recorded decisions as a person reads them."""

from pathlib import Path
from typing import Annotated

import typer


def explain(
    file: Annotated[Path, typer.Argument(help="Audit lines or answers of `headroom decide`; - for standard input.")],
    workload: Annotated[str | None, typer.Argument(help="Only this workload, as namespace/name or name.")] = None,
    at: Annotated[
        float | None, typer.Option("--at", metavar="SECONDS", help="The decision in force at this sample time.")
    ] = None,
    last: Annotated[int, typer.Option("--last", min=1, metavar="N", help="The last N decisions of each workload.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print audit lines in place of text.")] = False,
) -> None:
    """Say why a recorded decision is what it is: each step with its counts, its reason and the figures behind it.

    Without options it prints the latest decision of every workload in the file.
    """
    from autoscaler.cli.selection import select
    from autoscaler.record.audit import audit_line
    from autoscaler.record.explain import page

    for index, decision in enumerate(select(file, workload, at, last)):
        if as_json:
            typer.echo(audit_line(decision).decode())
        else:
            typer.echo(("\n" if index else "") + page(decision))
