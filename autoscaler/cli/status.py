"""`headroom status`: what every workload needs, has and is getting, as a table."""

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from autoscaler.cli.leader import AsJson, Config, Context, Kubeconfig, Namespace, Reach, Server, ask
from autoscaler.errors import HeadroomError

if TYPE_CHECKING:
    from autoscaler.adapters.web.asked import Replica, Status
    from autoscaler.record.pool_status import PoolLine
    from autoscaler.record.status import About, WorkloadStatus

MOST_NAMED: Final = 3
"""Workloads that are named one by one for what is told of all of them in the same words."""

_NAMES: Final = ("WORKLOAD", "MODE", "LOAD/S", "NEEDS", "HAS", "GETTING", "WAIT", "AGE", "STATE", "LAST DECISION")
_POOL_NAMES: Final = (
    "WARMPOOL",
    "BACKEND",
    "WARM",
    "WANTED",
    "STARTING",
    "FOUND WARM",
    "REFILL",
    "STATE",
    "LAST DECISION",
)
_RIGHT: Final = frozenset({"LOAD/S", "NEEDS", "HAS", "GETTING", "WAIT", "AGE"})


def status(
    workload: Annotated[
        str | None, typer.Argument(help="Only this workload, as NAMESPACE/NAME, or this NAMESPACE/.")
    ] = None,
    *,
    server: Server = None, config: Config = None, kubeconfig: Kubeconfig = None, context: Context = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show what every workload needs, has and is getting, and what is in the way."""
    told = read_status(Reach(server, config, kubeconfig, context, namespace), workload)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(told)).decode())
    else:
        _print(told)


def read_status(reach: Reach, workload: str | None = None) -> "Status":
    """The status of all workloads, in as many answers as it takes. Raises AskError."""
    import msgspec

    from autoscaler.adapters.web.asked import Status
    from autoscaler.record.status import not_scaled

    rows: list[WorkloadStatus] = []
    query = [("namespace", workload.partition("/")[0])] if workload else []
    after: str | None = ""
    while after is not None:
        body = ask(reach, "/api/status", [*query, ("after", after)])
        try:
            part = msgspec.json.decode(body, type=Status)
        except msgspec.DecodeError as error:
            raise HeadroomError(
                f"/api/status: not an answer that this version understands: {error}; use the controller's own version"
            ) from error
        rows += part.workloads
        after = part.next
    if workload and not workload.endswith("/"):
        rows = [row for row in rows if row.workload == workload]
        if not rows:
            raise HeadroomError(not_scaled(workload, part.rejected))
    return replace(part, workloads=tuple(rows), next=None)


def _print(told: "Status") -> None:
    for line in _head(told.replica, told.total):
        typer.echo(line)
    rows = [_NAMES, *(_cells(row) for row in told.workloads)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_NAMES))]
    # A terminal shows as much of the last column as fits; a pipe gets all of it.
    most = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for row in rows if told.workloads else ():
        padded = [
            f"{cell:>{width}}" if name in _RIGHT else f"{cell:<{width}}"
            for cell, width, name in zip(row, widths, _NAMES, strict=True)
        ]
        typer.echo("   ".join(padded).rstrip()[:most])
    for line in _pools(told.pools):
        typer.echo(line[:most])
    for line in (*_troubles(told.workloads), *_in_vain(told)):
        typer.echo(line)


def _pools(pools: "tuple[PoolLine, ...]") -> Iterator[str]:
    """The warm pools, as a table of their own."""
    from autoscaler.record.explain import duration

    def shown(value: float | None, words: Any = str) -> str:
        return "?" if value is None else str(words(value))

    rows = [_POOL_NAMES] + [
        (
            row.pool, row.backend or "?", shown(row.warm), shown(row.target), shown(row.starting),
            shown(row.hit_ratio, "{:.1%}".format), shown(row.refill_s, duration), row.state, row.text,
        )
        for row in pools
    ]  # fmt: skip
    widths = [max(len(row[place]) for row in rows) for place in range(len(_POOL_NAMES))]
    yield from (
        "   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
        if pools
    )


def _head(replica: "Replica", total: int) -> Iterator[str]:
    """Who answers, and what concerns all workloads."""
    if replica.leading:
        yield f"{replica.identity} leads (version {replica.version}), {total} workload{'' if total == 1 else 's'}"
    else:
        yield f"{replica.identity} does not lead, {replica.holder or 'nobody'} does: there are no figures here"
    if replica.frozen:
        why = f" ({replica.frozen_why})" if replica.frozen_why else ""
        yield f"FROZEN{why}: everything is decided and recorded, nothing is acted upon"
    for why in replica.not_ready:
        yield f"not ready: {why}"


def _cells(row: "WorkloadStatus") -> tuple[str, ...]:
    from autoscaler.record.explain import duration, number

    def shown(value: float | None, words: Any = number) -> str:
        return "?" if value is None else str(words(value))

    text = row.text or ""
    return (
        row.workload, row.about.mode_words, shown(row.load_rps), shown(row.needs), shown(row.has), shown(row.getting),
        shown(row.wait_s, duration), shown(row.age_s, duration), state(row), text,
    )  # fmt: skip


def state(row: "WorkloadStatus") -> str:
    """How a workload does, in a word or two: the worst of what is true of it."""
    signals = {signal.state for signal in row.signals if signal.blocking}
    if row.age_s is None:
        return "not decided yet"
    if "unknown" in signals:
        return "no metrics"
    if row.about.obstacle:
        return "blocked"
    if row.overload == "overloaded":
        return "overloaded"
    if row.wait_s is not None and row.slo_wait_s is not None and row.wait_s > row.slo_wait_s:
        return "late"
    if "held" in signals:
        return "metrics held"
    if row.getting:
        return "starting"
    return "learning" if row.overload == "unknown" else "fits"


def _troubles(rows: "tuple[WorkloadStatus, ...]") -> Iterator[str]:
    """What a person should look at, a line each; what is told of many in the same words is one line of them all."""
    told: dict[str, list[str]] = {}
    for row in rows:
        for words in _wrong(row):
            told.setdefault(words, []).append(row.workload)
    for words, whose in told.items():
        if len(whose) > MOST_NAMED:
            yield f"{', '.join(whose[:MOST_NAMED])} and {len(whose) - MOST_NAMED} more: {words}"
        else:
            yield from (f"{workload}: {words}" for workload in whose)


def _wrong(row: "WorkloadStatus") -> Iterator[str]:
    """What is wrong with one workload, or worth a look."""
    about = row.about
    yield from _paused(about)
    yield from (about.obstacle,) if about.obstacle else ()
    yield from (problem.words for problem in about.problems)
    yield from about.remarks
    yield from (f"metrics not found: {', '.join(about.missing)}",) if about.missing else ()
    if row.act is not None and row.act.message is not None:
        yield f"last act {row.act.words}: {row.act.message}"


def _paused(about: "About") -> Iterator[str]:
    """By whom a workload is paused, and until when; nothing where it is left alone for another cause."""
    from autoscaler.record.explain import clock

    if ("Paused", "True", about.mode) in {(one.type, one.status, one.reason) for one in about.conditions}:
        until = "for good" if about.mode_until_s is None else f"until {clock(about.mode_until_s)}"
        yield f"{about.mode} {until}, by {about.way} {about.policy or ''}".rstrip()


def _in_vain(told: "Status") -> Iterator[str]:
    """Who asks to be scaled and is not, a line each."""
    for one in told.rejected:
        yield f"not scaled: {one.kind} {one.namespace}/{one.name}: {one.reason}: {one.message}"
    if told.rejected_total > len(told.rejected):
        yield f"not scaled: {told.rejected_total - len(told.rejected)} more"
