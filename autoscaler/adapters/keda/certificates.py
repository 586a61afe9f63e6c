"""The certificates that KEDA is greeted with, for gRPC; a pair that does not fit together is not taken.

Enters: paths. Leaves: credentials that every new connection is greeted with, after the files as they are then.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from autoscaler.adapters.expiry import not_after_s
from autoscaler.adapters.keda.counts import Counts
from autoscaler.adapters.pem import PemFiles, content, server_context

SETTING: Final = "keda.tls"


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
        self._tls = tls
        self._counts = counts
        more = () if tls.client_ca_file is None else (tls.client_ca_file,)
        self._files = PemFiles(SETTING, (tls.cert_file, tls.key_file, *more), self._read)
        self._config, counts.certificate_ends_s = self._files.first

    def credentials(self) -> grpc.ServerCredentials:
        """Credentials that follow the files."""
        return grpc.dynamic_ssl_server_credentials(
            self._config,
            self._newer,  # type: ignore[arg-type] # None, for no change, is what the stubs leave out
            require_client_authentication=self._tls.client_ca_file is not None,
        )

    def _newer(self) -> grpc.ServerCertificateConfiguration | None:
        """What is in the files if it is new and sound; called by gRPC, in its own thread, before every handshake."""
        found = self._files.newer()
        self._counts.certificates_refused = self._files.fault is not None
        if found is None:
            return None
        config, self._counts.certificate_ends_s = found
        return config

    def _read(self) -> tuple[grpc.ServerCertificateConfiguration, float | None]:
        """The pair and its callers' authority, and until when the pair is good."""
        tls = self._tls
        server_context(SETTING, tls.cert_file, tls.key_file, tls.client_ca_file)
        pair = (content(SETTING, tls.key_file), content(SETTING, tls.cert_file))
        trusted = None if tls.client_ca_file is None else content(SETTING, tls.client_ca_file)
        self._counts.certificates += 1
        return grpc.ssl_server_certificate_configuration([pair], trusted), not_after_s(pair[1])
