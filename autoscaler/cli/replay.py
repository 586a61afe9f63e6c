"""`headroom replay`: recorded inputs through the same core again, as they were or under other settings."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from autoscaler.cli import prometheus_flags as live
from autoscaler.cli.heeded import refuse_typed
from autoscaler.errors import InputError

if TYPE_CHECKING:
    from autoscaler.cli.progress import Meter
    from autoscaler.cli.replayed import Shown
    from autoscaler.hindsight.overlay import Overlay
    from autoscaler.hindsight.replay import Replayed

DAYS: Final = 7.0
MOST_PROCESSES: Final = 4
"""More would have too few stretches each to be worth it."""
COMPARING: Final = 0.05
"""Share of the bar for the comparison with the optimum, of which a workload takes seconds (measured)."""
OF_PROMETHEUS: Final = ("days", "config", "token_file", "ca_file", "selector", "metric", "query_timeout")
"""Parameters that say nothing about audit files."""


def replay(
    ctx: typer.Context,
    audit: Annotated[
        list[Path] | None,
        typer.Argument(metavar="AUDIT", help="Audit files, plain or .gz, or folders of them."),
    ] = None,
    *,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting to try instead, such as slo.wait_s=5; repeatable."),
    ] = None,
    workload: Annotated[str | None, typer.Option("--workload", metavar="NS/NAME", help="Only this workload.")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Decide under --set on all looks in their order; several times as slow.")
    ] = False,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON.")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a page with plots of what --set changes.")
    ] = None,
    prometheus: live.Server = None, days: live.Days = DAYS, config: live.Config = None,
    token_file: live.TokenFile = None, ca_file: live.CaFile = None,
    selector: Annotated[
        str | None,
        typer.Option("--selector", metavar="MATCHERS", help="Which series are its, where that cannot be found out."),
    ] = None,
    metric: live.Metrics = None, query_timeout: live.QueryTimeout = live.QUERY_TIMEOUT_S,
) -> None:  # fmt: skip
    """Replay what a controller recorded: audit files of `headroom run` (settings: audit.directory).

    Without --set every decision is compared with the recorded one, byte for byte, and so is all that was remembered
    wherever the record holds it, every two hours; exit code 1 if one differs. With
    --set the same core decides under the other settings too: which decisions change on the same readings, and what
    both settings would have cost and made late on the same arrivals, beside the optimum that knows them. Keys are those
    of a policy: min_replicas, max_replicas, slo.wait_s, slo.ttft_s, slo.tpot_s, tick_s, warmup_prior_s, target_ratio,
    idle_after_s, and events as JSON: events='[{"from_s": 0, "to_s": 3600, "floor": 3}]', in the record's time.

    Where the record holds memories, stretches of it are decided on side by side under the other settings, each begun
    half an hour early from what was remembered as recorded: an approximation, told with how far two stretches agree on
    the looks that they share. Where the other settings leave a queue that the next would begin without, both are
    replayed as one. Only the first makes the recorded decisions again; --exact does, on all looks in order.

    With --prometheus URL the past of --workload is read out of a metrics store in place of files. There are no
    decisions to compare with in it: the core's defaults and the other settings are laid beside what happened.
    """
    from autoscaler.cli.output import check_writable
    from autoscaler.hindsight.overlay import Overlay

    if prometheus is None:
        refuse_typed(ctx, OF_PROMETHEUS, "only with --prometheus; audit files are read as a whole")
    changes = tuple(set_ or ())
    overlay = Overlay.of(changes)
    if exact and (prometheus is not None or not changes):
        raise InputError("--exact: only with audit files and --set KEY=VALUE; all else is exact as it is")
    check_writable([path for path in (json, report) if path is not None], read=audit or ())
    if prometheus is not None:
        if audit or workload is None:
            raise InputError("--prometheus: give --workload NS/NAME with it, and no files")
        options = live.PrometheusOptions(
            prometheus, config, token_file, ca_file, days, workloads=(workload,),
            selectors=() if selector is None else (selector,), metrics=tuple(metric or ()),
            query_timeout_s=query_timeout,
        )  # fmt: skip
        told = _of_prometheus(options, workload, overlay, changes)
    else:
        if report is not None and not overlay.changes:
            raise InputError("--report: there is nothing to plot without --set KEY=VALUE; give a setting to compare")
        told = _of_files(audit, workload, overlay, changes, exact=exact)
    _tell(told, json, report)
    if not overlay.changes and (told.done.rerun.different or told.done.rerun.unlike):
        raise typer.Exit(1)


def _tell(told: "Shown", json: Path | None, report: Path | None) -> None:
    from autoscaler.cli.output import write_together
    from autoscaler.cli.replayed import text
    from autoscaler.cli.replayed_forms import as_json, page

    files: dict[Path, str] = {}
    if json is not None:
        files[json] = as_json(told)
    if report is not None:
        files[report] = page(told)
    try:
        write_together(files)
    finally:  # minutes of work are told even where they cannot be kept
        typer.echo(text(told))
    for path in files:
        print(f"wrote {path}", file=sys.stderr)


def _of_files(
    audit: list[Path] | None, workload: str | None, overlay: "Overlay", changes: Sequence[str], *, exact: bool
) -> "Shown":
    from autoscaler.cli.output import interruptible
    from autoscaler.cli.progress import Meter, amount
    from autoscaler.fitting.late import fit
    from autoscaler.hindsight.recording import Recording
    from autoscaler.hindsight.replay import replay

    if not audit:
        raise InputError("replay: nothing to read; give audit files, or --prometheus URL with --workload NS/NAME")
    processes = min(MOST_PROCESSES, os.cpu_count() or 1)
    recording = Recording.of(audit)
    with interruptible(), Meter(1, forks=True) as meter:
        meter.begin(f"replaying {amount(recording.paths)}")
        done = replay(
            recording, fit, overlay=overlay, workload=workload, processes=processes, exact=exact,
            progress=lambda share: meter.move((1.0 - COMPARING) * share),
        )  # fmt: skip
        return _compared(done, changes, meter)


def _of_prometheus(
    options: live.PrometheusOptions, workload: str, overlay: "Overlay", changes: Sequence[str]
) -> "Shown":
    from autoscaler.cli.output import interruptible
    from autoscaler.cli.progress import Meter
    from autoscaler.cli.replay_history import series_of
    from autoscaler.fitting.late import fit
    from autoscaler.hindsight.replay import replay_history

    series, gaps = series_of(options, workload)
    prior = b"{}" if series.warmup_s is None else b'{"warmup_prior_s":%.15g}' % series.warmup_s
    with interruptible(), Meter(1) as meter:
        meter.begin(f"deciding on {options.days:g} days of {workload}")
        done = replay_history(
            series, fit, overlay=overlay, policy_json=prior,
            progress=lambda share: meter.move((1.0 - COMPARING) * share),
        )  # fmt: skip
        done.gaps += gaps
        return _compared(done, changes, meter)


def _compared(done: "Replayed", changes: Sequence[str], meter: "Meter") -> "Shown":
    from autoscaler.cli.replayed import Shown, comparisons

    compared = comparisons(done, lambda share: meter.move(1.0 - COMPARING * (1.0 - share)))
    return Shown(done, compared, changes)
