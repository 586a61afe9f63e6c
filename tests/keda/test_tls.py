"""Who may call over TLS, and certificates that change while the server runs."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from autoscaler.adapters.keda.answers import Served
from autoscaler.adapters.keda.certificates import Certificates, Tls
from autoscaler.adapters.keda.counts import Counts
from autoscaler.adapters.keda.externalscaler_pb2_grpc import ExternalScalerStub
from autoscaler.errors import InputError
from tests.keda.book import CHAT, Book, calling, ref, serving
from tests.keda.certs import Authority, Pair, put

pytestmark = pytest.mark.needs("openssl")

DAY_S = 86_400.0
READ = """
import sys
from pathlib import Path
from autoscaler.adapters.keda.certificates import Certificates, Tls
from autoscaler.adapters.keda.counts import Counts
Certificates(Tls(Path(sys.argv[1]), Path(sys.argv[2])), Counts())
"""
SERVER_NAMES = "DNS:headroom-keda.headroom-system,IP:127.0.0.1"


class Site:
    """A server's files and its callers' authority."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder, "ours")
        self.foreign = Authority(folder, "foreign")
        self.files = Pair(folder / "tls.crt", folder / "tls.key")
        self.renew()
        self.operator = self.authority.sign("keda-operator", "DNS:keda-operator.keda")

    def renew(self, authority: Authority | None = None) -> None:
        put((authority or self.authority).sign("headroom", SERVER_NAMES), self.files)

    def tls(self, *, mutual: bool = False, names: frozenset[str] = frozenset()) -> Tls:
        return Tls(self.files.cert, self.files.key, self.authority.cert if mutual or names else None, names)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def greeting(
    port: int, authority: Authority | Path, pair: Pair | None = None
) -> AsyncIterator[ExternalScalerStub]:
    """A client on a connection of its own that trusts one authority, or those in a file."""
    key, chain = (pair.key.read_bytes(), pair.cert.read_bytes()) if pair else (None, None)
    trusted = authority if isinstance(authority, Path) else authority.cert
    shown = grpc.ssl_channel_credentials(trusted.read_bytes(), key, chain)
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", shown, options=options) as channel:
        yield ExternalScalerStub(channel)


async def code(client: ExternalScalerStub) -> grpc.StatusCode:
    try:
        await client.IsActive(ref(), timeout=3)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_a_caller_who_trusts_the_servers_authority_is_answered(site: Site) -> None:
    async with serving(Book({CHAT: Served(1, 1)}), tls=site.tls()) as port:
        async with greeting(port, site.authority) as client:
            assert await code(client) is grpc.StatusCode.OK
        async with greeting(port, site.foreign) as client:
            assert await code(client) is grpc.StatusCode.UNAVAILABLE
        async with calling(port) as client:
            assert await code(client) is grpc.StatusCode.UNAVAILABLE


async def test_with_a_client_authority_only_its_own_may_call(site: Site) -> None:
    async with serving(Book({CHAT: Served(1, 1)}), tls=site.tls(mutual=True)) as port:
        for pair, expected in (
            (site.operator, grpc.StatusCode.OK),
            (site.foreign.sign("keda-operator"), grpc.StatusCode.UNAVAILABLE),
            (None, grpc.StatusCode.UNAVAILABLE),
        ):
            async with greeting(port, site.authority, pair) as client:
                assert await code(client) is expected


@pytest.mark.parametrize("name", ["keda-operator", "keda-operator.keda"], ids=["common name", "alternative name"])
async def test_with_client_names_only_they_may_call(site: Site, name: str) -> None:
    book = Book({CHAT: Served(1, 1)})
    async with serving(book, tls=site.tls(names=frozenset({name}))) as port:
        async with greeting(port, site.authority, site.operator) as client:
            assert await code(client) is grpc.StatusCode.OK
        async with greeting(port, site.authority, site.authority.sign("somebody")) as client:
            assert await code(client) is grpc.StatusCode.PERMISSION_DENIED
    assert book.counts.calls["IsActive", "PERMISSION_DENIED"] == 1


async def test_a_renewed_certificate_is_shown_to_the_next_connection_and_open_ones_stay(tmp_path: Path) -> None:
    site, book = Site(tmp_path), Book({CHAT: Served(1, 1)})
    async with serving(book, tls=site.tls()) as port, greeting(port, site.authority) as old:
        assert await code(old) is grpc.StatusCode.OK
        site.renew(site.foreign)
        async with greeting(port, site.foreign) as client:
            assert await code(client) is grpc.StatusCode.OK
        async with greeting(port, site.authority) as client:
            assert await code(client) is grpc.StatusCode.UNAVAILABLE
        assert await code(old) is grpc.StatusCode.OK
    assert book.counts.certificates == 2


async def test_a_connection_of_age_is_greeted_anew_with_the_renewed_certificate_and_no_call_is_lost(
    tmp_path: Path,
) -> None:
    """KEDA's operator keeps its connection for as long as it may: without an age it would never see a renewal."""
    site, book = Site(tmp_path), Book({CHAT: Served(1, 1)})
    either = tmp_path / "either.crt"
    either.write_bytes(site.authority.cert.read_bytes() + site.foreign.cert.read_bytes())
    async with serving(book, tls=site.tls(), connection_age_s=0.5) as port, greeting(port, either) as client:
        stream = client.StreamIsActive(ref())
        assert (await stream.read()).result
        site.renew(site.foreign)
        for _ in range(40):
            assert await code(client) is grpc.StatusCode.OK
            if book.counts.certificates == 2:
                break
            await asyncio.sleep(0.05)
        assert book.counts.certificates == 2
        book.say(0)
        assert not (await stream.read()).result, "the old connection's stream goes on to its own end"


async def test_a_pair_that_does_not_fit_is_not_taken_and_the_next_sound_one_is(tmp_path: Path) -> None:
    site, book = Site(tmp_path), Book({CHAT: Served(1, 1)})
    async with serving(book, tls=site.tls()) as port:
        site.files.key.write_text("no key")
        async with greeting(port, site.authority) as client:
            assert await code(client) is grpc.StatusCode.OK
        assert book.counts.certificates_refused
        site.files.cert.unlink()
        async with greeting(port, site.authority) as client:
            assert await code(client) is grpc.StatusCode.OK
        site.renew(site.foreign)
        async with greeting(port, site.foreign) as client:
            assert await code(client) is grpc.StatusCode.OK
        assert not book.counts.certificates_refused


async def test_files_that_were_away_for_a_moment_are_no_trouble_once_they_are_back(tmp_path: Path) -> None:
    site, book = Site(tmp_path), Book({CHAT: Served(1, 1)})
    async with serving(book, tls=site.tls()) as port:
        for here, there, refused in (
            (site.files.key, tmp_path / "away", True),
            (tmp_path / "away", site.files.key, False),
        ):
            here.rename(there)
            async with greeting(port, site.authority) as client:
                assert await code(client) is grpc.StatusCode.OK
            assert book.counts.certificates_refused is refused


async def test_the_end_that_is_told_is_that_of_the_pair_in_force(tmp_path: Path) -> None:
    site, book = Site(tmp_path), Book({CHAT: Served(1, 1)})
    async with serving(book, tls=site.tls()) as port:
        first_s = book.counts.certificate_ends_s
        assert first_s is not None
        assert 1.9 * DAY_S < first_s - time.time() < 2.1 * DAY_S
        put(site.authority.sign("headroom", SERVER_NAMES, days=30), site.files)
        async with greeting(port, site.authority) as client:
            assert await code(client) is grpc.StatusCode.OK
        renewed_s = book.counts.certificate_ends_s
        assert renewed_s is not None
        assert renewed_s - first_s == pytest.approx(28 * DAY_S, abs=60)
        site.files.key.write_text("no key")
        async with greeting(port, site.authority) as client:
            assert await code(client) is grpc.StatusCode.OK
        assert book.counts.certificate_ends_s == renewed_s, "the old pair is shown, so its end is what matters"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda files: files.key.unlink(), "No such file"),
        (lambda files: files.key.write_text("no key"), "give a certificate and its own key in PEM"),
        (lambda files: files.cert.write_bytes(b"\x00"), "give a certificate and its own key in PEM"),
    ],
    ids=["no key file", "a key that is none", "a certificate that is none"],
)
def test_files_that_cannot_be_used_at_the_start_are_told(tmp_path: Path, spoil, words: str) -> None:
    site = Site(tmp_path)
    spoil(site.files)
    with pytest.raises(InputError, match=r"keda\.tls: ") as refused:
        Certificates(site.tls(), Counts())
    assert words in str(refused.value)


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    """OpenSSL would ask, and wait, in the thread that greets KEDA; and gRPC could not read the key all the same."""
    plain, locked = Authority(tmp_path, "ours").sign("headroom"), tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "ec", "-aes256", "-passout", "pass:secret", "-in", plain.key, "-out", locked],
        check=True,
        capture_output=True,
    )
    command: list[str | Path] = [sys.executable, "-c", READ, plain.cert, locked]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as reading:
        try:
            assert reading.wait(45) == 1
            assert reading.stderr is not None
            assert "without a passphrase" in reading.stderr.read()
        finally:
            reading.kill()
