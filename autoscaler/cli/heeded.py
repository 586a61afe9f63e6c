"""Options that cannot be used, or that nothing would heed: who gives one is told, because silence looks like consent.

Enters: a command's context. Leaves: an InputError that names the options as they were typed. What comes from the
environment or is a default is no word of this person's and passes where nothing would heed it.
"""

from collections.abc import Callable, Mapping
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


Legal = Mapping[str, tuple[Callable[[float], bool], str]]
"""Parameter -> whether a number can be used, and which can, in words."""


def refuse_out_of_range(ctx: Any, legal: Legal) -> None:
    """InputError naming the first option whose number is not `legal`; one that was left out is."""
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name)
        if parameter.name in legal and value is not None:
            usable, words = legal[parameter.name]
            if not usable(value):
                raise InputError(f"{parameter.opts[0]}: {value:g} cannot be used; it must be {words}")
