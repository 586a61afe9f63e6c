"""`headroom pause`: stop Headroom from acting on a workload, or on everything, and let it act again.

Enters: a workload and what to stop. Leaves: a mode in its ScalingPolicy, or else in its annotations, and beside it the
mode that was there, so that `--resume` makes nothing act that did not act before. It asks the cluster and not the
controller, so that it works while no replica does.
"""

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from autoscaler.cli.leader import AsJson, Config, Context, Kubeconfig, Namespace, Reach, cluster
from autoscaler.errors import InputError

if TYPE_CHECKING:
    from autoscaler.cli.pausing import Change

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_S: Final = 366 * 86400


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for. `mode` None means to act again as before."""

    mode: str | None
    until: str | None = None
    reason: str = ""


def _flag(name: str, help_text: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=help_text, metavar=metavar)


def pause(
    workload: Annotated[str | None, typer.Argument(help="NAMESPACE/NAME; none with --cluster.")] = None,
    *,
    scale_in: Annotated[bool, _flag("--in", "Only stop it from taking replicas away.")] = False,
    scale_out: Annotated[bool, _flag("--out", "Only stop it from adding replicas.")] = False,
    lasting: Annotated[str | None, _flag("--for", "Such as 90m, 2h or 1d12h; left out: for good.", "TIME")] = None,
    resume: Annotated[bool, _flag("--resume", "Act again as before the pause.")] = False,
    everything: Annotated[bool, _flag("--cluster", "Freeze, or resume, everything in the cluster.")] = False,
    reason: Annotated[str, _flag("--reason", "With --cluster: why, for people to read.", "TEXT")] = "",
    kind: Annotated[str | None, _flag("--kind", "Of the target, where several have that name.", "KIND")] = None,
    config: Config = None, kubeconfig: Kubeconfig = None, context: Context = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Stop Headroom from acting on a workload, or on everything; it goes on deciding and recording.

    For a while: headroom pause prod/chat --for 2h

    As before: headroom pause prod/chat --resume

    Everything: headroom pause --cluster --reason "incident 7"
    """
    if everything == (workload is not None):
        raise InputError("pause: give either a workload, as NAMESPACE/NAME, or --cluster")
    if resume and (scale_in or scale_out or lasting is not None):
        raise InputError("--resume ends any pause: leave out --in, --out and --for")
    if everything and (scale_in or scale_out or lasting is not None or kind is not None):
        raise InputError("--cluster freezes all until --cluster --resume: leave out --in, --out, --for and --kind")
    modes = {(True, False): "PausedScaleIn", (False, True): "PausedScaleOut"}
    mode = None if resume else modes.get((scale_in, scale_out), "Paused")
    wish = Wish(mode, None if lasting is None else _until(lasting), reason)
    reach = Reach(None, config, kubeconfig, context, namespace)
    change = asyncio.run(_pause(reach, workload, kind, wish))
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(change).decode())
    else:
        typer.echo(change.words)


async def _pause(reach: Reach, workload: str | None, kind: str | None, wish: Wish) -> "Change":
    from autoscaler.cli import pausing

    settings = reach.settings()
    async with cluster(settings) as api:
        if workload is None:
            return await pausing.freeze(api, settings, wish)
        return await pausing.change_mode(api, settings, workload, kind, wish)


def _until(lasting: str) -> str:
    """The instant at which a pause ends, as RFC 3339. Raises InputError for a length of time that is none."""
    parts = re.findall(r"(\d{1,9})([smhd])", lasting)
    seconds = sum(int(count) * _UNITS[unit] for count, unit in parts)
    if "".join(count + unit for count, unit in parts) != lasting or not 1 <= seconds <= _LONGEST_S:
        raise InputError(f"--for {lasting!r}: give a time such as 90m, 2h or 1d12h, of at most a year")
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
