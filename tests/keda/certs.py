"""Certificates of the tests' own authorities, made by openssl."""

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates for as long as the tests run."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
        self._made = 0
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", self._pair.key, "-out", self._pair.cert,
        )  # fmt: skip

    @property
    def cert(self) -> Path:
        """The authority's own certificate."""
        return self._pair.cert

    def sign(self, common_name: str, alternative: str = "", *, days: int = 2) -> Pair:
        """A pair in files of its own; `alternative` is such as "DNS:localhost,IP:127.0.0.1"."""
        self._made += 1
        stem = self._folder / f"{self._pair.cert.stem}-{self._made}"
        pair, request, more = Pair(stem.with_suffix(".crt"), stem.with_suffix(".key")), f"{stem}.csr", f"{stem}.ext"
        _openssl(
            "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", f"/CN={common_name}", "-keyout", pair.key, "-out", request,
        )  # fmt: skip
        Path(more).write_text(f"subjectAltName={alternative}\n" if alternative else "")
        _openssl(
            "x509", "-req", "-in", request, "-CA", self._pair.cert, "-CAkey", self._pair.key, "-CAcreateserial",
            "-days", str(days), "-extfile", more, "-out", pair.cert,
        )  # fmt: skip
        return pair


def put(pair: Pair, into: Pair) -> None:
    """Replace the files of `into` by those of `pair`, each at one stroke."""
    for source, target in ((pair.cert, into.cert), (pair.key, into.key)):
        fresh = target.with_suffix(".new")
        shutil.copy(source, fresh)
        fresh.rename(target)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def told_by_openssl(cert: Path) -> float:
    """When a certificate ends, in Unix seconds."""
    line = subprocess.run(
        ["openssl", "x509", "-enddate", "-noout", "-in", cert], check=True, capture_output=True, text=True
    ).stdout
    return float(ssl.cert_time_to_seconds(line.strip().partition("=")[2]))
