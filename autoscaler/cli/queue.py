"""`headroom queue`: the queues of batch work, who holds what, and why each gang waits, as tables."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from autoscaler.cli.leader import AsJson, Config, Context, Kubeconfig, Namespace, Reach, Server, ask
from autoscaler.errors import HeadroomError

if TYPE_CHECKING:
    from autoscaler.record.batch_lines import BatchLines, GangLine, QueueLine

_QUEUES: Final = ("QUEUE", "STATE", "SHARE", "RUNNING", "WAITING", "IN USE", "GUARANTEED", "LIMIT")
_GANGS: Final = ("GANG", "QUEUE", "PLACE", "ASKS FOR", "STATE", "FOR", "START P50", "P90", "WHY")
_OWNERS: Final = ("SHAPE", "SERVING", "STANDBY", "BATCH", "LOAN", "RESERVED", "FOREIGN", "UNAVAILABLE", "FREE")


def queue(
    name: Annotated[
        str | None, typer.Argument(metavar="QUEUE", help="Only the gangs of this queue, and of those below it.")
    ] = None,
    *,
    server: Server = None, config: Config = None, kubeconfig: Kubeconfig = None, context: Context = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show the queues of batch work: who holds what, who waits at which place, why, and until when.

    `headroom explain job/NAME`, or jobset/NAME and so on, says more of one gang, `headroom explain batchqueue/NAME`
    of one queue.
    """
    told = read_lines(Reach(server, config, kubeconfig, context, namespace))
    if name is not None:
        told = _within(told, name)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(told)).decode())
        return
    for line in _text(told):
        typer.echo(line)


def read_lines(reach: Reach) -> "BatchLines":
    """All of batch work as the leader tells it. Raises AskError."""
    import msgspec

    from autoscaler.record.batch_lines import BatchLines

    body = ask(reach, "/api/batch")
    try:
        return msgspec.json.decode(body, type=BatchLines)
    except msgspec.DecodeError as error:
        raise HeadroomError(
            f"/api/batch: not an answer that this version understands: {error}; use the controller's own version"
        ) from error


def _within(told: "BatchLines", name: str) -> "BatchLines":
    """The same of one queue and those below it."""
    from dataclasses import replace

    inside = {name}
    for line in told.queues:  # parents come before children
        if line.parent in inside:
            inside.add(line.queue)
    if not any(line.queue == name for line in told.queues):
        raise HeadroomError(f"there is no BatchQueue {name!r}; `headroom queue` lists those there are")
    return replace(
        told,
        queues=tuple(line for line in told.queues if line.queue in inside),
        gangs=tuple(line for line in told.gangs if line.queue in inside),
    )


def _text(told: "BatchLines") -> Iterator[str]:
    if not told.acting:
        yield f"ONLY TOLD: {told.idle_reason or 'nothing is carried out'}"
    yield from told.remarks
    yield from _table(_QUEUES, [_queue(line) for line in told.queues])
    for line in told.queues:
        yield from (f"{line.queue}: {words}" for words in line.findings)
    if told.gangs:
        yield ""
        yield from _table(_GANGS, [_gang(line) for line in told.gangs])
    if told.owners:
        yield ""
        yield from _table(
            _OWNERS,
            [
                (one.shape, *map(str, (one.serving, one.standby, one.batch, one.loan, one.reserved, one.foreign,
                 one.unavailable, one.free)))
                for one in told.owners
            ],
        )  # fmt: skip
    if not told.queues:
        yield "no BatchQueue yet; config/samples/batchqueue.yaml is one"


def _queue(line: "QueueLine") -> tuple[str, ...]:
    from autoscaler.record.explain import number

    used = ", ".join(f"{shape.used} {shape.shape}" for shape in line.shapes)
    kept = ", ".join(f"{shape.guaranteed} {shape.shape}" for shape in line.shapes)
    most = ", ".join(f"{shape.limit} {shape.shape}" for shape in line.shapes if shape.limit is not None)
    share = "?" if line.share_ratio is None else f"{number(100 * line.share_ratio)} %"
    place = f"{'  ' * line.depth}{line.queue}"
    return place, line.state, share, str(line.running), str(line.waiting), used or "0", kept or "0", most or "none"


def _gang(line: "GangLine") -> tuple[str, ...]:
    from autoscaler.record.explain import duration

    def until(wait_s: float | None) -> str:
        if line.state != "waiting":
            return ""
        return "?" if wait_s is None else duration(wait_s)

    place = "" if line.position is None else str(line.position)
    return (
        line.gang, line.queue, place, line.asks, line.state, duration(line.age_s), until(line.wait_p50_s),
        until(line.wait_p90_s), line.text,
    )  # fmt: skip


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows under their names; a terminal shows as much of the last column as fits, a pipe all of it."""
    if not rows:
        return
    all_rows = [names, *rows]
    widths = [max(len(row[place]) for row in all_rows) for place in range(len(names))]
    most = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for row in all_rows:
        yield "   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()[:most]
