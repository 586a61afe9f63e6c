"""`headroom doctor`: whether everything that Headroom needs is there, and what to do about what is not."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from autoscaler.cli.leader import AsJson, Config, Context, Kubeconfig, Namespace, Reach, Server, cluster

if TYPE_CHECKING:
    from autoscaler.cli.checks import Finding

_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red"}
_WIDTH_WITHOUT_TERMINAL: Final = 140


def doctor(
    account: Annotated[
        str, typer.Option("--service-account", help="The controller's, in Headroom's namespace.", metavar="NAME")
    ] = "headroom",
    own: Annotated[
        bool, typer.Option("--own-rights", help="Look at your own rights in place of the service account's.")
    ] = False,
    leftovers: Annotated[
        bool, typer.Option("--leftovers", help="List only what is there of Headroom, and how each is removed.")
    ] = False,
    *,
    server: Server = None, config: Config = None, kubeconfig: Kubeconfig = None, context: Context = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Check the cluster, the controller's rights, its lease, and every workload's metrics; nothing is changed.

    The exit code is 1 where something fails; warnings leave it 0.
    """
    reach = Reach(server, config, kubeconfig, context, namespace)
    found = asyncio.run(_left(reach) if leftovers else _examine(reach, None if own else account))
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        _print(found)
    if any(finding.state.value == "fail" for finding in found):
        raise typer.Exit(1)


async def _examine(reach: Reach, account: str | None) -> "list[Finding]":
    from autoscaler.adapters.kube.connection import SERVICE_ACCOUNT
    from autoscaler.cli.checks import Patient, examine
    from autoscaler.cli.in_force import in_force
    from autoscaler.runtime.clock import WallClock

    usual = reach.settings()
    if usual.kube.kubeconfig is None and (SERVICE_ACCOUNT / "token").exists():
        account = None  # in the controller's own pod, whoever asks is the controller
    async with cluster(usual) as api:
        settings, chart, told = await in_force(api, reach, usual)
        patient = Patient(api, settings, WallClock(), account, reach.server, chart=chart)
        found = [finding async for finding in examine(patient)]
        return [*found[:1], *told, *found[1:]] if len(found) > 1 else found


async def _left(reach: Reach) -> "list[Finding]":
    from autoscaler.cli.checks import Finding, State
    from autoscaler.cli.leftovers import leftovers

    settings = reach.settings()
    async with cluster(settings) as api:
        found = [Finding("left", State.WARN, one.what, one.command) async for one in leftovers(api, settings)]
    return found or [Finding("left", State.OK, "nothing of Headroom is in the cluster")]


def _print(found: "list[Finding]") -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_WITHOUT_TERMINAL)
    width = max(len(finding.check) for finding in found)
    for finding in found:
        row = Text(f"{finding.state.value:<4}", style=_STYLES[finding.state.value])
        row.append(f"  {finding.check:<{width}}  {finding.words}", style="default")
        console.print(row, soft_wrap=True)
        if finding.remedy is not None and finding.state.value != "ok":
            console.print(Text(f"{'':<{width + 8}}→ {finding.remedy}", style="dim"), soft_wrap=True)
    counts = {state: sum(finding.state.value == state for finding in found) for state in _STYLES}
    console.print(", ".join(f"{count} {state}" for state, count in counts.items()), highlight=False)
