"""Standard output that cannot be written to, as on a full disk: told in words, whatever command it was. What its
encoding has no sign for is written as an escape, which JSON knows too.

Apart from `output`, because every help reads this and needs no files.
"""

import codecs
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Final

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says where no more can be written: the disk, a quota or the largest file."""
STDOUT: Final = 1
ESCAPED: Final = "headroom.escaped"
"""How that is written which an encoding has no sign for: `backslashreplace` has escapes that JSON does not know."""


@contextmanager
def writable_stdout() -> Iterator[None]:
    """The whole of a command's output: where it cannot be written the command ends in words, with exit code 1.

    So it does where there is no room for a file, which the system names, and standard output is none of it.
    A reader that has seen enough, such as `head`, is no trouble and gets no words.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        codecs.register_error(ESCAPED, _escaped)
        sys.stdout.reconfigure(errors=ESCAPED)  # an arrow where the locale is Latin-1
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # None where a shell or a supervisor closed it (`>&-`)
                sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.EPIPE and error.errno not in FULL:
            raise
        if error.filename is not None:
            print(f"error: {error.filename}: cannot be written ({error.strerror}); make room there", file=sys.stderr)
            sys.exit(1)
        # Python flushes once more when it ends, and would say in its own words what fails then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
        if error.errno in FULL:
            print(
                f"error: output cannot be written ({error.strerror}); make room, or send it elsewhere", file=sys.stderr
            )
        sys.exit(1)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What could not be encoded, in units of UTF-16, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)), error.end
