"""`headroom report`: what shadow mode would have saved, with its error first, and how good forecasts were."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from autoscaler.cli.heeded import refuse_typed
from autoscaler.cli.leader import Config, Context, Kubeconfig, Namespace, Reach, Server, ask
from autoscaler.errors import InputError

PATH: Final = "/api/past"


def report(
    ctx: typer.Context,
    audit: Annotated[
        list[Path] | None,
        typer.Argument(metavar="AUDIT", help="Audit files or folders; left out, the running controller is asked."),
    ] = None,
    *,
    workload: Annotated[str | None, typer.Option("--workload", metavar="NS/NAME", help="Only this workload.")] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page with plots.")] = None,
    server: Server = None, config: Config = None, kubeconfig: Kubeconfig = None, context: Context = None,
    namespace: Namespace = None,
) -> None:  # fmt: skip
    """Say what Headroom's replicas would have held and made late on the arrivals that really came.

    The model's error on what really happened stands first; where it is too large, or not known yet, the answer is that
    it cannot be told, and why. The running controller tells of workloads in Shadow and Paused; of audit files all
    workloads are counted again from their inputs.
    """
    from autoscaler.cli.output import check_writable, interruptible, write_together
    from autoscaler.cli.past import as_json, page, read_answer, text

    if audit:
        refuse_typed(
            ctx,
            ("server", "config", "kubeconfig", "context", "namespace"),
            "only to ask the running controller; leave it out, or the audit files",
        )
    check_writable([path for path in (json, html) if path is not None], read=audit or ())
    if audit:
        from autoscaler.cli.progress import Meter, amount
        from autoscaler.fitting.late import fit
        from autoscaler.hindsight.estimates import estimates
        from autoscaler.hindsight.recording import Recording

        recording = Recording.of(audit)
        with interruptible(), Meter(1) as meter:
            meter.begin(f"counting {amount(recording.paths)} again")
            told = estimates(recording, fit, workload, progress=meter.move)
        notes = [*recording.gaps, *recording.faults]
    else:
        told = read_answer(ask(Reach(server, config, kubeconfig, context, namespace), PATH), PATH)
        told = [past for past in told if workload in {None, past.workload}]
        notes = []
    if workload is not None and not told:
        raise InputError(f"--workload {workload}: nothing is known of it; it may not be in Shadow or Paused")
    files: dict[Path, str] = {}
    if json is not None:
        files[json] = as_json(told)
    if html is not None:
        files[html] = page(told, notes)
    try:
        write_together(files)
    finally:  # minutes of work are told even where they cannot be kept
        typer.echo(text(told, notes))
    for path in files:
        print(f"wrote {path}", file=sys.stderr)
