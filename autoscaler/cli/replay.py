"""`headroom replay`: recorded inputs through the same core again, as they were or under other settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autoscaler.errors import InputError

if TYPE_CHECKING:
    from autoscaler.hindsight.overlay import Overlay
    from autoscaler.hindsight.replay import Replayed


def replay(
    audit: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[AUDIT]...", help="Audit files, plain or .gz, or folders of them."),
    ] = None,
    *,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting to try instead, such as slo.wait_s=5; repeatable."),
    ] = None,
    workload: Annotated[str | None, typer.Option("--workload", metavar="NS/NAME", help="Only this workload.")] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON.")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a page with plots of what --set changes.")
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", metavar="URL", help="In place of files: the past of --workload out of this one."),
    ] = None,
    days: Annotated[float, typer.Option("--days", metavar="DAYS", help="How far back Prometheus is asked.")] = 7.0,
) -> None:
    """Replay what a controller recorded: audit files of `headroom run` (settings: audit.directory).

    Without --set every decision is compared with the recorded one, byte for byte; exit code 1 if one differs. With
    --set the same core decides under the other settings too: which decisions change on the same readings, and what
    both settings would have cost and made late on the same arrivals, beside the optimum that knows them. Keys are those
    of a policy: min_replicas, max_replicas, slo.wait_s, slo.ttft_s, slo.tpot_s, tick_s, warmup_prior_s, target_ratio,
    idle_after_s.

    Of Prometheus there are no decisions to compare with: the core's defaults and the other settings are laid beside
    what happened.
    """
    from autoscaler.cli.output import check_writable, write_together
    from autoscaler.cli.replayed import Told, as_json, comparisons, page, text
    from autoscaler.hindsight.overlay import Overlay

    changes = tuple(set_ or ())
    overlay = Overlay.of(changes)
    check_writable([path for path in (json, report) if path is not None])
    if prometheus is not None:
        done = _of_prometheus(prometheus, workload, days, overlay, audit)
    else:
        if report is not None and not overlay.changes:
            raise InputError("--report: there is nothing to plot without --set KEY=VALUE; give a setting to compare")
        done = _of_files(audit, workload, overlay)
    told = Told(done, comparisons(done), changes)
    files: dict[Path, str] = {}
    if json is not None:
        files[json] = as_json(told)
    if report is not None:
        files[report] = page(told)
    write_together(files)
    typer.echo(text(told))
    if not overlay.changes and done.rerun.different:
        raise typer.Exit(1)


def _of_files(audit: list[Path] | None, workload: str | None, overlay: "Overlay") -> "Replayed":
    from autoscaler.fitting.fit import fit
    from autoscaler.hindsight.recording import Recording
    from autoscaler.hindsight.replay import replay

    if not audit:
        raise InputError("replay: nothing to read; give audit files, or --prometheus URL with --workload NS/NAME")
    return replay(Recording.of(audit), fit, overlay=overlay, workload=workload)


def _of_prometheus(
    server: str, workload: str | None, days: float, overlay: "Overlay", audit: list[Path] | None
) -> "Replayed":
    from autoscaler.cli.replay_history import series_of
    from autoscaler.fitting.fit import fit
    from autoscaler.hindsight.replay import replay_history

    if audit or workload is None:
        raise InputError("--prometheus: give --workload NS/NAME with it, and no files")
    series, gaps = series_of(server, workload, days)
    prior = b"{}" if series.warmup_s is None else b'{"warmup_prior_s":%.15g}' % series.warmup_s
    done = replay_history(series, fit, overlay=overlay, policy_json=prior)
    done.gaps += gaps
    return done
