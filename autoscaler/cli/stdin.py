"""Standard input as bytes, where there is one: a shell (`<&-`) or a supervisor may have closed it."""

import sys
from typing import BinaryIO

from autoscaler.errors import InputError


def bytes_in(command: str) -> BinaryIO:
    """Standard input. Raises InputError, in the name of the command that reads it, where it is closed."""
    if sys.stdin is None:
        raise InputError(f"{command}: standard input is closed; send lines to it")
    return sys.stdin.buffer
