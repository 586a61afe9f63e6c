"""The certificate of the HTTP port, and how another replica's is checked.

Enters: files. Leaves: contexts for the standard library's TLS. The pair is looked at whenever somebody connects, so
that a rotated secret needs no restart; a pair that does not fit is logged and not taken.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autoscaler.adapters.expiry import not_after_s
from autoscaler.adapters.pem import PemFiles, content, server_context
from autoscaler.errors import InputError
from autoscaler.record.http_metrics import HttpFigures

SETTING: Final = "http.tls"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM."""

    cert_file: Path
    """The server's certificate and what leads from it to its authority."""
    key_file: Path
    ca_file: Path | None = None
    """The authority of the other replica's certificate; None: the system's."""
    server_name: str | None = None
    """The name in the other replica's certificate; None: the address that is asked."""


class Greeting:
    """The pair in force. Raises InputError for files that cannot be used at the start."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._files = PemFiles(SETTING, (tls.cert_file, tls.key_file), self._read)
        self._newest, self._ends_s = self._files.first
        self.context, _ = self._read()
        """What the server listens with; whoever connects is greeted with the newest pair."""
        self.context.sni_callback = self._greet

    def figures(self) -> HttpFigures:
        """Until when the pair in force is good, and whether newer files were of no use to who connected last."""
        return HttpFigures(self._ends_s, refused=self._files.fault is not None)

    def _read(self) -> tuple[ssl.SSLContext, float | None]:
        context = server_context(SETTING, self._tls.cert_file, self._tls.key_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context, not_after_s(content(SETTING, self._tls.cert_file))

    def _greet(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Called in every handshake, whether or not a name was asked for."""
        self._newest, self._ends_s = self._files.newer() or (self._newest, self._ends_s)
        connection.context = self._newest


def trusting(tls: Tls) -> ssl.SSLContext:
    """What checks the other replica's certificate, by the authority as the file holds it now. Raises InputError."""
    try:
        return ssl.create_default_context(cafile=None if tls.ca_file is None else str(tls.ca_file))
    except OSError as error:
        words = f"{error.strerror or error}; give a file of certificates in PEM"
        raise InputError(f"{SETTING}.ca_file: {tls.ca_file}: {words}") from error
