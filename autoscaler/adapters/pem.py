"""Certificates in files that are looked at when somebody connects: a secret that is rotated needs no restart.

Enters: paths, and who reads them. Leaves: what was read anew where the files have changed and fit together; until they
do, what was read before stays in force. It knows no vendor.
"""

import os
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from autoscaler.errors import InputError

LOG: Final = structlog.get_logger("headroom")

T = TypeVar("T")
Stamp = tuple[tuple[int, int, int], ...]


class PemFiles(Generic[T]):
    """Files that the setting `setting` names, read by `read`. Raises InputError for those that cannot be used now."""

    def __init__(self, setting: str, files: Sequence[Path], read: Callable[[], T]) -> None:
        self.fault: str | None = None
        """Why the newest files are not in force, None while they are."""
        self._setting = setting
        self._files = files
        self._read = read
        self._stamp: Stamp = self._look()
        self.first = read()

    def newer(self) -> T | None:
        """What is in the files if it is new and sound."""
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return None
            found = self._read()
            changing = self._look() != stamp
        except InputError as error:
            self._keep(str(error))
            return None
        if changing:  # whoever connects next reads them again
            return None
        self._stamp, self.fault = stamp, None
        LOG.info("certificates replaced", file=str(self._files[0]))
        return found

    def _keep(self, fault: str) -> None:
        """Go on with what is in force; files that are mended, or put back as they were, are read again."""
        if fault != self.fault:
            LOG.error("certificates are not replaced", why=fault)
        self._stamp, self.fault = (), fault

    def _look(self) -> Stamp:
        """What tells whether a file was changed or replaced."""
        stats = [self._stat(path) for path in self._files]
        return tuple((one.st_mtime_ns, one.st_ino, one.st_size) for one in stats)

    def _stat(self, path: Path) -> os.stat_result:
        try:
            return path.stat()
        except OSError as error:
            raise InputError(f"{self._setting}: {path}: {error.strerror}; give a file that can be read") from error


def content(setting: str, file: Path) -> bytes:
    """What is in a file that `setting` names. Raises InputError."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{setting}: {file}: {error.strerror}; give a file that can be read") from error


def server_context(setting: str, cert_file: Path, key_file: Path, authority: Path | None = None) -> ssl.SSLContext:
    """What greets callers with this pair; with an authority its file is read as well. Raises InputError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password OpenSSL would ask for one at the terminal, and wait.
        context.load_cert_chain(cert_file, key_file, password="")
        if authority is not None:
            context.load_verify_locations(authority)
    except OSError as error:  # ssl.SSLError among them
        names = ", ".join(str(path) for path in (cert_file, key_file, authority) if path is not None)
        words = f"{error.strerror or error}; give a certificate and its own key in PEM, without a passphrase"
        raise InputError(f"{setting}: {names}: {words}") from error
    return context
