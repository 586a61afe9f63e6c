"""`headroom replay`: recorded inputs through the same core again, as they were or under other settings."""

from pathlib import Path
from typing import Annotated

import typer

from autoscaler.errors import InputError


def replay(
    audit: Annotated[
        list[Path], typer.Argument(metavar="AUDIT...", help="Audit files, plain or .gz, or folders of them.")
    ],
    *,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting to try instead, such as slo.wait_s=5; repeatable."),
    ] = None,
    workload: Annotated[str | None, typer.Option("--workload", metavar="NS/NAME", help="Only this workload.")] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON.")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a page with plots (needs --set).")
    ] = None,
) -> None:
    """Replay what a controller recorded: audit files of `headroom run` (settings: audit.directory).

    Without --set every decision is compared with the recorded one, byte for byte; exit code 1 if one differs. With
    --set the same core decides under the other settings too: which decisions change on the same readings, and what
    both settings would have cost and made late on the same arrivals, beside the optimum that knows them. Keys are those
    of a policy: min_replicas, max_replicas, slo.wait_s, slo.ttft_s, slo.tpot_s, tick_s, warmup_prior_s, target_ratio,
    idle_after_s.
    """
    from autoscaler.cli.output import check_writable, write_together
    from autoscaler.cli.replayed import as_json, comparisons, page, text
    from autoscaler.fitting.fit import fit
    from autoscaler.hindsight.overlay import Overlay
    from autoscaler.hindsight.recording import Recording
    from autoscaler.hindsight.replay import replay as run

    overlay = Overlay.of(set_ or ())
    if report is not None and not overlay.changes:
        raise InputError("--report: there is nothing to plot without --set KEY=VALUE; give a setting to compare with")
    check_writable([path for path in (json, report) if path is not None])
    done = run(Recording.of(audit), fit, overlay=overlay, workload=workload)
    compared, files = comparisons(done), dict[Path, str]()
    if json is not None:
        files[json] = as_json(done, compared)
    if report is not None:
        files[report] = page(done, compared, set_ or ())
    write_together(files)
    typer.echo(text(done, compared, set_ or ()))
    if not overlay.changes and done.rerun.different:
        raise typer.Exit(1)
