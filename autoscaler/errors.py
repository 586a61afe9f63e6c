"""Headroom's own error tree.

HeadroomError
└── InputError       a file, a line, a flag or a policy that cannot be used: names what, where and what to do
"""


class HeadroomError(Exception):
    """Base of every error Headroom raises on purpose."""


class InputError(HeadroomError, ValueError):
    """Input from outside that cannot be used: names file, line, field and value, and what to do."""


def printable(text: str) -> str:
    """Words of others as they may stand in ours: without characters that a terminal would obey instead of showing."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "?" for one in text)
