"""Options that nothing would heed: whoever gives one is told what it goes with, because silence looks like consent.

Enters: a command's context. Leaves: an InputError that names the options as they were typed. What comes from the
environment or is a default is no word of this person's and passes.
"""

from typing import Any, Final

from autoscaler.errors import InputError

_TYPED: Final = "COMMANDLINE"


def refuse_typed(ctx: Any, names: tuple[str, ...], why: str) -> None:
    """InputError naming those of the parameters `names` that were typed; `why` goes on after the colon."""
    typed = [
        parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name in names and getattr(ctx.get_parameter_source(parameter.name), "name", "") == _TYPED
    ]
    if typed:
        raise InputError(f"{', '.join(typed)}: {why}")
