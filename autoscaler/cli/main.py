"""The `headroom` command: a table of sub-commands, each imported only when it runs.

A sub-command NAME is the function NAME of the module `autoscaler.cli.NAME`, with typer's annotations; its docstring is
its own `--help`. The one line shown by `headroom --help` stands here, so that help and completion import no numerics.
Every error of ours ends as one `error: …` line: exit code 2 for input that cannot be used, 1 for anything else.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from autoscaler import __version__
from autoscaler.cli.stdout import writable_stdout
from autoscaler.errors import HeadroomError, InputError

SUMMARIES: Final = {
    "demo": "Watch the controller scale an embedded cluster, on a page.",
    "preflight": "Say from recorded load what capacity is needed.",
    "simulate": "Score policies on a trace against the optimum.",
    "decide": "Turn readings on standard input into decisions.",
    "explain": "Say why a replica count is what it is.",
    "replay": "Run what was recorded through the core again.",
    "run": "Run the controller on a cluster.",
    "status": "Show what every workload needs, has and is getting.",
    "queue": "Show the queues of batch work and who waits why.",
    "report": "Say what shadow mode would have saved.",
    "pause": "Stop acting on a workload, or on everything; resume.",
    "doctor": "Check what the controller needs, and say what to mend.",
}
"""Sub-command -> its line in `headroom --help`, in the order shown."""


def load(name: str) -> TyperCommand:
    """The parsed-argument form of sub-command `name`; imports its module."""
    function: Callable[..., Any] = getattr(import_module(f"autoscaler.cli.{name}"), name)
    single = typer.Typer(add_completion=False)
    single.command(name, cls=Command, help=_unwrapped(function))(function)
    command = typer.main.get_command(single)
    if not isinstance(command, TyperCommand):
        raise TypeError(f"autoscaler.cli.{name}.{name} is not a single command")
    return command


def _unwrapped(function: Callable[..., Any]) -> str:
    """The docstring with its paragraphs in one line each, so that help breaks them where the terminal ends."""
    return "\n\n".join(" ".join(text.split()) for text in (getdoc(function) or "").split("\n\n"))


def _valueless(params: list[Any]) -> list[Any]:
    """The parameters, those that are flags without a value in help: typer's `--json <bool>` reads as `--json true`."""
    for param in params:
        if isinstance(param, TyperOption) and param.is_flag:
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A sub-command with its parameters."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, and `--help`."""
        return _valueless(super().get_params(ctx))


class LazyCommand(TyperCommand):
    """Stands in for a sub-command in help and completion; becomes the real one when arguments are to be parsed."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The real command's context: group, help and completion go on with `context.command` from here."""
        return load(str(self.name)).make_context(info_name, args, parent=parent, **extra)


class LazyGroup(TyperGroup):
    """Knows its sub-commands by name and one line each, and turns our errors into messages and exit codes."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own options, and `--help`."""
        return _valueless(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the table."""
        return list(SUMMARIES)

    def get_command(self, ctx: Any, cmd_name: str) -> LazyCommand | None:
        """The stand-in of `cmd_name`, None when there is no such sub-command."""
        summary = SUMMARIES.get(cmd_name)
        return None if summary is None else LazyCommand(cmd_name, help=summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The sub-command that is named; where there is none, an error that names those that are spelled like it.

        Raises InputError for an argument that is no text: reports and JSON repeat what was typed, and could not be
        written.
        """
        for argument in args:
            if argument.encode(errors="ignore").decode() != argument:
                file = os.path.lexists(argument.partition("=")[2] if argument.startswith("--") else argument)
                remedy = "give the file another name" if file else "write it in UTF-8"
                raise InputError(f"{argument!r}: it is not UTF-8; {remedy}")
        self.commands = {name: LazyCommand(name, help=line) for name, line in SUMMARIES.items()}
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Everything, help and completion too, and what is still to be written at its end."""
        with writable_stdout():
            return super().main(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the sub-command; an error of ours becomes one line on standard error, never a traceback."""
        try:
            return super().invoke(ctx)
        except HeadroomError as error:
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(2 if isinstance(error, InputError) else 1) from error


app = typer.Typer(
    name="headroom",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a plain traceback survives logs, narrow terminals and copy and paste
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(wanted: bool) -> None:
    """Print the version and end, when asked to."""
    if wanted:
        typer.echo(f"headroom {__version__}")
        raise typer.Exit


@app.callback()
def headroom(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Scale GPU inference on Kubernetes ahead of its load, and say why."""
