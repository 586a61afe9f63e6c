"""`headroom explain`: decisions as a person reads them, recorded ones and those of a running controller."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from autoscaler.cli.leader import AsJson, Config, Context, Kubeconfig, Namespace, Reach, Server, ask
from autoscaler.errors import InputError
from autoscaler.record.batch import KINDS

_WORKLOAD: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_POOL: Final = re.compile(r"warmpools?/([a-z0-9]([-.a-z0-9]*[a-z0-9])?)")
_QUEUE: Final = re.compile(r"batchqueues?/([a-z0-9]([-.a-z0-9]*[a-z0-9])?)")
_NAME: Final = r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?"
_GANG: Final = re.compile(rf"({'|'.join(KINDS)})(/{_NAME}){{1,2}}")
_ENDINGS: Final = frozenset({".csv", ".gz", ".json", ".jsonl"})
"""Of what can only be meant as a file, there or not."""


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAMESPACE/NAME|warmpool/NAME|batchqueue/NAME|job/NAME|FILE",
            help="A workload, a WarmPool, a BatchQueue or batch work (job/NAMESPACE/NAME where several have that name) "
            "of the running controller; or audit lines or answers of `headroom decide`, - for standard input.",
        ),
    ],
    workload: Annotated[
        str | None, typer.Argument(help="Of a file: only this workload, as namespace/name or name.")
    ] = None,
    *,
    at: Annotated[
        float | None, typer.Option("--at", metavar="SECONDS", help="Of a file: the decision in force at this time.")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", min=1, metavar="N", help="Of a file: the last N decisions of each workload.")
    ] = None,
    server: Server = None, config: Config = None, kubeconfig: Kubeconfig = None, context: Context = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Say why a number is what it is: each step with its counts, its reason and the figures behind it.

    Of a workload, a WarmPool, a BatchQueue or batch work it asks the controller that leads. Of a file it prints the
    latest decision of every workload in it.
    """
    if _is_workload(what):
        if workload is not None or at is not None or last is not None:
            raise InputError(f"{what}: --at, --last and a second name choose from a file; leave them out, or give one")
        _explain_running(Reach(server, config, kubeconfig, context, namespace), *_asked(what), as_json)
    else:
        _explain_file(Path(what), workload, at, last or 1, as_json)


def _is_workload(what: str) -> bool:
    """Whether a word is meant as what runs: it reads like that, and no file has that name."""
    return (
        bool(_WORKLOAD.fullmatch(what) or _GANG.fullmatch(what))
        and Path(what).suffix not in _ENDINGS
        and not Path(what).exists()
    )


def _asked(what: str) -> tuple[str, str]:
    """Where the controller is asked about it, and the part of the answer that is its text."""
    if (pool := _POOL.fullmatch(what)) is not None:
        return f"/api/pools/{pool[1]}", "explained"
    if (queue := _QUEUE.fullmatch(what)) is not None:
        return f"/api/batch/queues/{queue[1]}", "explained"
    if _GANG.fullmatch(what):
        return f"/api/batch/gangs/{what}", "explained"
    return f"/api/explain/{what}", "text"


def _explain_running(reach: Reach, path: str, told: str, as_json: bool) -> None:
    import msgspec

    body = ask(reach, path)
    if as_json:
        typer.echo(msgspec.json.format(body).decode())
        return
    try:
        typer.echo(str(msgspec.json.decode(body)[told]))
    except (msgspec.DecodeError, LookupError, TypeError) as error:
        raise InputError(f"{path}: not an answer of a controller: {body[:80]!r}") from error


def _explain_file(file: Path, workload: str | None, at: float | None, last: int, as_json: bool) -> None:
    from autoscaler.cli.selection import select
    from autoscaler.record.audit import audit_line
    from autoscaler.record.explain import page

    for index, decision in enumerate(select(file, workload, at, last)):
        if as_json:
            typer.echo(audit_line(decision).decode())
        else:
            typer.echo(("\n" if index else "") + page(decision))
