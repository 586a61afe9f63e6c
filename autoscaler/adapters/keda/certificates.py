"""Certificates from files, read again when the files change; a pair that does not fit together is not taken.

Enters: paths. Leaves: credentials that every new connection is greeted with. Files are looked at when somebody
connects, so nothing has to be restarted or told when a secret is rotated; until the new files are sound the old pair
stays.
"""

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import structlog

from autoscaler.adapters.keda.counts import Counts
from autoscaler.adapters.keda.expiry import not_after_s
from autoscaler.errors import InputError

LOG: Final = structlog.get_logger("headroom")

Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM, and who may call."""

    cert_file: Path
    """The server's certificate and what leads from it to its authority."""
    key_file: Path
    client_ca_file: Path | None = None
    """The authority of callers, who must then show a certificate of it; None: anybody may call."""
    client_names: frozenset[str] = frozenset()
    """Names (alternative names or common name) of callers that may call; empty: all of that authority."""


class Certificates:
    """The pair in force. Raises InputError for files that cannot be used at the start."""

    def __init__(self, tls: Tls, counts: Counts) -> None:
        self._fault: str | None = None
        """Why the newest files are not in force, None while they are."""
        self._tls = tls
        self._counts = counts
        self._stamp: Stamp = self._look()
        self._config, counts.certificate_ends_s = self._read()

    def credentials(self) -> grpc.ServerCredentials:
        """Credentials that follow the files."""
        return grpc.dynamic_ssl_server_credentials(
            self._config,
            self._newer,  # type: ignore[arg-type] # None, for no change, is what the stubs leave out
            require_client_authentication=self._tls.client_ca_file is not None,
        )

    def _newer(self) -> grpc.ServerCertificateConfiguration | None:
        """What is in the files if it is new and sound; called by gRPC, in its own thread, before every handshake."""
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return None
            config, ends_s = self._read()
            changing = self._look() != stamp
        except InputError as error:
            self._keep(str(error))
            return None
        if changing:  # the next handshake reads them again
            return None
        self._stamp, self._fault = stamp, None
        self._counts.certificates_refused, self._counts.certificate_ends_s = False, ends_s
        LOG.info("certificates replaced", file=str(self._tls.cert_file))
        return config

    def _keep(self, fault: str) -> None:
        """Go on with the old pair; files that are mended, or put back as they were, are read again."""
        if fault != self._fault:
            LOG.error("certificates are not replaced", why=fault)
        self._stamp, self._fault = (), fault
        self._counts.certificates_refused = True

    def _look(self) -> Stamp:
        """What tells whether a file was changed or replaced."""
        return tuple((s.st_mtime_ns, s.st_ino, s.st_size) for s in (_stat(path) for path in self._files()))

    def _files(self) -> tuple[Path, ...]:
        tls = self._tls
        return (tls.cert_file, tls.key_file) + ((tls.client_ca_file,) if tls.client_ca_file is not None else ())

    def _read(self) -> tuple[grpc.ServerCertificateConfiguration, float | None]:
        """The pair and its callers' authority, and until when the pair is good."""
        tls, trusted = self._tls, None
        try:
            pair = (tls.key_file.read_bytes(), tls.cert_file.read_bytes())
            check = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            # Without a password OpenSSL would ask for one at the terminal, and wait.
            check.load_cert_chain(tls.cert_file, tls.key_file, password="")
            if tls.client_ca_file is not None:
                trusted = tls.client_ca_file.read_bytes()
                check.load_verify_locations(tls.client_ca_file)
        except OSError as error:  # ssl.SSLError among them
            names = ", ".join(str(path) for path in self._files())
            words = f"{error.strerror or error}; give a certificate and its own key in PEM, without a passphrase"
            raise InputError(f"keda.tls: {names}: {words}") from error
        self._counts.certificates += 1
        return grpc.ssl_server_certificate_configuration([pair], trusted), not_after_s(pair[1])


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise InputError(f"keda.tls: {path}: {error.strerror}; give a file that can be read") from error
