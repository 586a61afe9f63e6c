"""`headroom explain`: decisions as a person reads them, recorded ones and those of a running controller."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final

import typer

from autoscaler.cli.leader import AsJson, AskError, Config, Context, Kubeconfig, Namespace, Reach, Server, ask
from autoscaler.errors import InputError
from autoscaler.record.batch import KINDS

_NAME: Final = r"[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?"
_WORKLOAD: Final = re.compile(rf"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?/{_NAME}")
_PREFIXED: Final = re.compile(rf"(warmpool|batchqueue)s?/({_NAME})|({'|'.join(KINDS)})/({_NAME}(?:/{_NAME})?)")
WORKLOAD: Final = "workload"
_FORMS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        WORKLOAD: _WORKLOAD,
        **dict.fromkeys(("warmpool", "batchqueue"), re.compile(_NAME)),
        **dict.fromkeys(KINDS, re.compile(rf"{_NAME}(/{_NAME})?")),
    }
)
"""What `--kind` may say -> how one of that kind is named."""
_ENDINGS: Final = frozenset({".csv", ".gz", ".json", ".jsonl"})
"""Of what can only be meant as a file, there or not."""


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAMESPACE/NAME|KIND/NAME|FILE",
            help="A workload of the running controller, or warmpool/NAME, batchqueue/NAME, or batch work as "
            f"{', '.join(f'{kind}/NAME' for kind in KINDS)} (KIND/NAMESPACE/NAME where several have that name); or a "
            "file of audit lines or answers of `headroom decide`, - for standard input.",
        ),
    ],
    workload: Annotated[
        str | None, typer.Argument(help="Of a file: only this workload, as namespace/name or name.")
    ] = None,
    *,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", metavar="KIND", help=f"What is named, where the name alone is not clear: {', '.join(_FORMS)}."
        ),
    ] = None,
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
    latest decision of every workload in it. What begins with warmpool/, batchqueue/ or job/ is no workload, even where
    a namespace has that name: `--kind workload job/NAME` is one in the namespace job.
    """
    if at is not None and not math.isfinite(at):
        raise InputError(f"--at: {at:g} is no instant; give seconds as the file counts them")
    if kind is not None or _is_running(what):
        if workload is not None or at is not None or last is not None:
            raise InputError(f"{what}: --at, --last and a second name choose from a file; leave them out, or give one")
        _explain_running(Reach(server, config, kubeconfig, context, namespace), what, kind, as_json)
    else:
        if re.fullmatch(_NAME, what) and Path(what).suffix not in _ENDINGS and not Path(what).exists():
            meant = f"prod/{what}" if workload is None else f"{what}/{workload}"
            raise InputError(f"{what}: no such file; what runs is named NAMESPACE/NAME or KIND/NAME, such as {meant}")
        _explain_file(Path(what), workload, at, last or 1, as_json)


def _is_running(what: str) -> bool:
    """Whether a word is meant as what runs: it reads like that, and no file has that name."""
    return (
        bool(_WORKLOAD.fullmatch(what) or _PREFIXED.fullmatch(what))
        and Path(what).suffix not in _ENDINGS
        and not Path(what).exists()
    )


def _named(what: str, kind: str | None) -> tuple[str, str]:
    """Kind and name of what is meant. Raises InputError for a kind that there is not, and a name that is none of it."""
    if kind is None:
        found = _PREFIXED.fullmatch(what)
        return (WORKLOAD, what) if found is None else (found[1] or found[3], found[2] or found[4])
    if kind not in _FORMS:
        raise InputError(f"--kind {kind!r}: give one of {', '.join(_FORMS)}")
    if not _FORMS[kind].fullmatch(what):
        form = "NAMESPACE/NAME" if kind == WORKLOAD else "NAMESPACE/NAME or NAME" if kind in KINDS else "NAME"
        raise InputError(f"{what}: --kind {kind} takes {form}")
    return kind, what


def _asked(kind: str, name: str) -> tuple[str, str]:
    """Where the controller is asked about it, and the part of the answer that is its text."""
    match kind:
        case "workload":
            return f"/api/explain/{name}", "text"
        case "warmpool":
            return f"/api/pools/{name}", "explained"
        case "batchqueue":
            return f"/api/batch/queues/{name}", "explained"
        case _:
            return f"/api/batch/gangs/{kind}/{name}", "explained"


def _explain_running(reach: Reach, what: str, given: str | None, as_json: bool) -> None:
    import msgspec

    kind, name = _named(what, given)
    path, told = _asked(kind, name)
    try:
        body = ask(reach, path)
    except AskError as error:
        if error.status == 404 and given is None and kind != WORKLOAD and _WORKLOAD.fullmatch(what):
            words = f"{error}; if a workload in namespace {what.partition('/')[0]} is meant, add --kind {WORKLOAD}"
            raise AskError(words, error.status) from error
        raise
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
