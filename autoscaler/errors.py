"""Headroom's own error tree.

HeadroomError
└── InputError       a file, a line, a flag or a policy that cannot be used: names what, where and what to do
"""


class HeadroomError(Exception):
    """Base of every error Headroom raises on purpose."""


class InputError(HeadroomError, ValueError):
    """Input from outside that cannot be used: names file, line, field and value, and what to do."""


def sole(group: BaseExceptionGroup, kinds: type[Exception] | tuple[type[Exception], ...]) -> BaseException | None:
    """The first error of a group where all are of these kinds, to be raised for it; None where others are among them.

    `except*` does not do: with Python 3.11.2 what is raised within it comes out in a group of its own, with 3.11.7 not.
    """
    error: BaseException = group
    if group.split(kinds)[1] is not None:
        return None
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def printable(text: str) -> str:
    """Words of others as they may stand in ours: without characters that a terminal would obey instead of showing."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "?" for one in text)
