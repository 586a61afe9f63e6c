"""An endpoint with a certificate of one's own authority: believed with its file, refused without."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.history import remembering
from autoscaler.adapters.prometheus.live import querying
from autoscaler.errors import InputError
from autoscaler.ports import PortError
from tests.keda.certs import Authority
from tests.prometheus.fake import FakePrometheus, success

pytestmark = pytest.mark.needs("openssl")


@contextlib.asynccontextmanager
async def behind_tls(folder: Path, name: str = "ours") -> AsyncIterator[tuple[str, Path]]:
    """The URL of a Prometheus behind TLS, and the certificate of the authority that signed its own."""
    authority = Authority(folder, name)
    pair = authority.sign("prometheus", "IP:127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    app = web.Application()
    fake = FakePrometheus(success({"metric": {"a": "b"}, "values": [[10, "1"]]}))
    app.router.add_route("*", "/{tail:.*}", fake.handle)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    try:
        yield f"https://127.0.0.1:{server.port}", authority.cert
    finally:
        await server.close()


async def test_live_and_past_questions_believe_the_authority_that_was_named(tmp_path: Path) -> None:
    async with behind_tls(tmp_path) as (url, authority):
        endpoint = Endpoint(url, ca_file=authority)
        async with querying({"main": endpoint}) as live:
            assert [one.metric for one in await live.instant("main", "x")] == [{"a": "b"}]
        async with remembering(endpoint) as history:
            (past,) = await history.range("x", start_s=10, end_s=10, step_s=10)
            assert past.values.tolist() == [1.0]


async def test_an_authority_that_takes_the_place_of_another_is_believed_from_then_on(tmp_path: Path) -> None:
    named = tmp_path / "ca.crt"
    async with behind_tls(tmp_path) as (_, old), behind_tls(tmp_path, "renewed") as (url, new):
        named.write_bytes(old.read_bytes())
        async with querying({"main": Endpoint(url, ca_file=named)}) as live:
            with pytest.raises(PortError, match="certificate"):
                await live.instant("main", "x")
            (tmp_path / "next").write_bytes(new.read_bytes())
            (tmp_path / "next").replace(named)
            assert [one.metric for one in await live.instant("main", "x")] == [{"a": "b"}]
            named.write_text("torn")
            assert [one.metric for one in await live.instant("main", "x")] == [{"a": "b"}], "what was sound stays"


async def test_without_it_nobody_is_told_a_token(tmp_path: Path) -> None:
    async with behind_tls(tmp_path) as (url, _):
        async with querying({"main": Endpoint(url)}) as live:
            with pytest.raises(PortError, match="certificate"):
                await live.instant("main", "x")
        async with remembering(Endpoint(url)) as history:
            with pytest.raises(PortError, match="certificate"):
                await history.range("x", start_s=10, end_s=10, step_s=10)


async def test_a_file_without_certificates_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(InputError, match="no certificates in"):
        async with querying({"main": Endpoint("https://127.0.0.1:1", ca_file=tmp_path / "empty.pem")}):
            pass
