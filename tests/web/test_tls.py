"""The HTTP port over TLS: greeted by the newest sound pair, and asked by the other replica only where it is known."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from autoscaler.adapters.web.hosts import Hosts
from autoscaler.adapters.web.live import Place, serving_live
from autoscaler.adapters.web.peer import peers
from autoscaler.adapters.web.tls import Greeting, Tls
from autoscaler.errors import InputError
from autoscaler.ports import Fault, PortError
from autoscaler.record.http_metrics import HttpFigures
from tests.keda.certs import Authority, Pair, put, told_by_openssl
from tests.web.test_live import Controller

NAME = "headroom.headroom-system.svc"
pytestmark = pytest.mark.needs("openssl")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "own")


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.sign("headroom", f"DNS:{NAME},DNS:localhost")


@asynccontextmanager
async def answering(pair: Pair, greeting: Greeting | None = None) -> AsyncIterator[int]:
    """The live server with this pair; its port."""
    made = Controller()
    place = Place("127.0.0.1", 0, Hosts("headroom-system"), greeting or Greeting(Tls(pair.cert, pair.key)))
    async with serving_live(made.facts(), made.hub, place) as port:
        yield port


async def shown(port: int, authority: Authority, name: str | None = "localhost") -> int:
    """The serial number of the certificate that a new caller is greeted with; without `name` it asks for none."""
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.check_hostname = name is not None
    reader, writer = await asyncio.open_connection(name or "127.0.0.1", port, ssl=context)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    found = writer.get_extra_info("peercert")
    writer.close()
    await writer.wait_closed()
    return int(found["serialNumber"], 16)


def serial(pair: Pair) -> int:
    done = subprocess.run(["openssl", "x509", "-noout", "-serial", "-in", pair.cert], capture_output=True, check=True)
    return int(done.stdout.decode().strip().partition("=")[2], 16)


async def test_who_trusts_the_authority_is_answered_and_plain_http_is_not(authority: Authority, pair: Pair) -> None:
    async with answering(pair) as port, aiohttp.ClientSession() as session:
        assert await shown(port, authority) == serial(pair)
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{port}/healthz")
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(f"https://localhost:{port}/healthz")


async def test_old_versions_of_tls_are_not_spoken(authority: Authority, pair: Pair) -> None:
    context = ssl.create_default_context(cafile=str(authority.cert))
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with answering(pair) as port, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"https://localhost:{port}/healthz", ssl=context)


@pytest.mark.parametrize("name", ["localhost", None], ids=["by name", "by address"])
async def test_a_renewed_pair_greets_the_next_caller_and_a_broken_one_does_not(
    authority: Authority, pair: Pair, name: str | None
) -> None:
    async with answering(pair) as port:
        before = await shown(port, authority, name)
        renewed = authority.sign("headroom", "DNS:localhost")
        pair.key.write_bytes(renewed.key.read_bytes())
        assert await shown(port, authority, name) == before, "the key is another certificate's"
        put(renewed, pair)
        assert await shown(port, authority, name) == serial(renewed) != before


async def test_the_figures_say_when_the_pair_in_force_ends_and_that_a_newer_one_is_of_no_use(
    authority: Authority,
) -> None:
    pair = authority.sign("headroom", "DNS:localhost", days=1)
    renewed = authority.sign("headroom", "DNS:localhost", days=30)
    greeting = Greeting(Tls(pair.cert, pair.key))
    before = greeting.figures()
    assert before == HttpFigures(told_by_openssl(pair.cert), refused=False)
    async with answering(pair, greeting) as port:
        key = pair.key.read_bytes()
        pair.key.write_bytes(renewed.key.read_bytes())
        await shown(port, authority)
        assert greeting.figures() == HttpFigures(before.ends_s, refused=True)
        pair.key.write_bytes(key)
        await shown(port, authority)
        assert greeting.figures() == before, "the pair that was put back is of use"
        put(renewed, pair)
        await shown(port, authority)
        assert greeting.figures() == HttpFigures(told_by_openssl(renewed.cert), refused=False)
    assert (greeting.figures().ends_s or 0.0) - (before.ends_s or 0.0) == pytest.approx(29 * 86_400, abs=60)


@pytest.mark.parametrize("wrong", ["missing", "swapped"])
def test_files_that_cannot_be_used_are_told_at_the_start(pair: Pair, wrong: str) -> None:
    tls = Tls(pair.cert, pair.key.with_name("none"), None) if wrong == "missing" else Tls(pair.key, pair.cert)
    with pytest.raises(InputError, match=r"^http\.tls: .*; give a "):
        Greeting(tls)


class Introduced:
    """Counts how often the header was wanted."""

    def __init__(self) -> None:
        self.times = 0

    async def header(self) -> str | None:
        self.times += 1
        return "Bearer own"


async def fetched(port: int, tls: Tls, who: Introduced, scheme: str = "https://") -> bytes:
    async with peers(5.0, tls=tls, introduction=who.header) as others:
        return await others.get(f"{scheme}127.0.0.1:{port}", "/api/snapshot")


async def test_the_other_replica_is_asked_by_the_name_in_its_certificate_and_told_who_asks(
    authority: Authority, pair: Pair
) -> None:
    heard: list[Mapping[str, str]] = []
    controller = Controller()
    tls, who = Tls(pair.cert, pair.key, authority.cert, NAME), Introduced()
    door = Listening(heard)
    place = Place("127.0.0.1", 0, Hosts("headroom-system"), Greeting(tls), door)  # type: ignore[arg-type]
    async with serving_live(controller.facts(), controller.hub, place) as port:
        assert await fetched(port, tls, who) == controller.snapshot
    assert [headers["Authorization"] for headers in heard] == ["Bearer own"]


class Listening:
    """A door that is open and hears what is shown."""

    def __init__(self, heard: list[Mapping[str, str]]) -> None:
        self._heard = heard

    async def admit(self, headers: Mapping[str, str], _path: str, _address: str) -> None:
        self._heard.append(headers)


async def test_whoever_else_answers_at_the_address_is_shown_no_token(tmp_path: Path, pair: Pair) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other")
    heard: list[Mapping[str, str]] = []
    controller = Controller()
    place = Place(
        "127.0.0.1", 0, Hosts("headroom-system"), Greeting(Tls(pair.cert, pair.key)), Listening(heard)  # type: ignore[arg-type]
    )  # fmt: skip
    async with serving_live(controller.facts(), controller.hub, place) as port:
        with pytest.raises(PortError, match="certificate verify failed"):
            await fetched(port, Tls(pair.cert, pair.key, other.cert, NAME), Introduced())
        who = Introduced()
        with pytest.raises(PortError, match=r"not asked: it shows no certificate, and http\.tls is set") as refused:
            await fetched(port, Tls(pair.cert, pair.key, other.cert, NAME), who, scheme="")
    assert (refused.value.fault, who.times, heard) == (Fault.DENIED, 0, [])


async def test_an_authority_that_cannot_be_read_is_told_by_its_setting(pair: Pair) -> None:
    tls = Tls(pair.cert, pair.key, pair.cert.with_name("none"), NAME)
    with pytest.raises(PortError, match=r"not asked: http\.tls\.ca_file: .*none: No such file"):
        await fetched(1, tls, Introduced())
