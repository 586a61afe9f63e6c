"""Finding the server and being let in: kubeconfigs, exec plugins, a pod's own token as it rotates, and TLS."""

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from autoscaler.adapters.kube import connection
from autoscaler.adapters.kube.api import KubeApi, KubeError
from autoscaler.adapters.kube.connection import Access, Credentials, read_access
from autoscaler.errors import InputError
from autoscaler.ports import Fault
from autoscaler.runtime.clock import ScaledClock, WallClock
from tests.kube.fakeserver import FakeServer, answer, lines, status

virtual = pytest.mark.looptime(noop_cycles=1)


def kubeconfig(folder: Path, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    """A kubeconfig with one context, ``here``."""
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(  # which is YAML
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return path


@pytest.mark.parametrize(
    ("user", "want"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"username": "ann", "password": "pw"}, "Basic YW5uOnB3"),
        ({}, None),
    ],
    ids=["a token", "a password", "nobody"],
)
async def test_a_request_carries_what_the_kubeconfig_says(tmp_path: Path, user, want) -> None:
    async with FakeServer() as server:
        path = kubeconfig(tmp_path, server.url + "/", user)
        before = path.read_bytes()
        server.always = answer(200, b"{}")
        async with KubeApi.connect(kubeconfig=path, clock=WallClock()) as api:
            assert api.server == server.url
            await api.request("GET", "/version")
    assert server.requests[0].headers.get("authorization") == want
    assert path.read_bytes() == before


async def test_another_context_is_another_cluster(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {})
    with pytest.raises(InputError, match=r"kubeconfig: .*there.*; give a usable kubeconfig"):
        await read_access(path, "there")
    assert (await read_access(path, "here")).server == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "empty, or of another form"), ("- 1\n", "empty, or of another form"), ("a: [", "while parsing a flow node")],
    ids=["empty", "a list", "no YAML"],
)
async def test_what_is_no_kubeconfig_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"config: (?s:{words}.*); give a usable kubeconfig"):
        await read_access(path, None)
    with pytest.raises(InputError, match=r"Is a directory; give a usable kubeconfig"):
        await read_access(tmp_path, None)


@pytest.mark.parametrize("names", [["~/.kube/config"], ["~/a", "~/b"]], ids=["kubectl's own", "two in KUBECONFIG"])
async def test_a_person_without_a_kubeconfig_is_told_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, names: list[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    # kubernetes-asyncio reads KUBECONFIG once, when it is imported.
    monkeypatch.setattr("kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", ":".join(names))
    said = ", ".join(name.replace("~", str(tmp_path)) for name in names)
    with pytest.raises(InputError, match=rf"^{said}: no such file; log in to the cluster, or give a usable kubeconfig"):
        await read_access(None, None, account=tmp_path / "no pod")
    assert caplog.text == "", "nothing is said twice"


PLUGIN_API = "client.authentication.k8s.io/v1"


@pytest.mark.parametrize(
    "content",
    [b"{\x00", b"- just\n- a list\n", b"", b"apiVersion: v1\nkind: Config\n"],
    ids=["no YAML", "another kind of file", "empty", "no context"],
)
async def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(InputError, match="broken: "):
        await read_access(path, None)


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({"tokenFile": "/nowhere"}, {}, "/nowhere: No such file"),
        ({"exec": {"apiVersion": PLUGIN_API, "command": "/nowhere"}}, {}, "/nowhere: No such file"),
        ({"exec": {"apiVersion": PLUGIN_API, "command": "/bin/false"}}, {}, ""),
        ({"exec": {"apiVersion": PLUGIN_API, "command": "/bin/echo", "args": ["no JSON"]}}, {}, ""),
        ({}, {"certificate-authority": "/nowhere"}, "/nowhere"),
        ({}, {"certificate-authority-data": "eA=="}, ""),
    ],
    ids=[
        "no token file",
        "no plugin",
        "a plugin that fails",
        "a plugin that chats",
        "no authority",
        "a false authority",
    ],
)
async def test_a_kubeconfig_whose_parts_cannot_be_used_is_named(tmp_path: Path, user, cluster, words) -> None:
    path = kubeconfig(tmp_path, "https://127.0.0.1:1", user, **cluster)
    with pytest.raises(InputError, match=f"kubeconfig: .*{words}"):
        await read_access(path, None)


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent: "):
        await read_access(tmp_path / "absent", None)


PLUGIN = """
import json, pathlib, sys
count = pathlib.Path(sys.argv[1])
count.write_text(str(int(count.read_text() or 0) + 1))
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                  "status": {"token": "token-" + count.read_text()}}))
"""


async def test_a_refused_token_is_asked_for_again_but_not_for_every_request(tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("")
    (tmp_path / "plugin.py").write_text(PLUGIN)
    user = {
        "exec": {
            "apiVersion": PLUGIN_API,
            "command": sys.executable,
            "args": ["-I", str(tmp_path / "plugin.py"), str(count)],
        }
    }
    async with FakeServer() as server:
        clock = ScaledClock()
        path = kubeconfig(tmp_path, server.url, user)
        async with KubeApi.connect(kubeconfig=path, clock=clock) as api:
            server.always = status(401, "Unauthorized", "Unauthorized")
            for _ in range(3):
                with pytest.raises(KubeError) as caught:
                    await api.request("GET", "/version")
            assert caught.value.fault is Fault.DENIED
            api._credentials._looked_s -= connection.REFUSED_S
            server.always = answer(200, b"{}")
            await api.request("GET", "/version")
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer token-1"] * 3 + ["Bearer token-2"]


def account(folder: Path, token: str) -> Path:
    """A service account's files."""
    (folder / "token").write_text(token)
    if not (folder / "ca.crt").exists():
        shutil.copy(ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt", folder / "ca.crt")
    return folder


async def test_a_pod_uses_its_own_token_and_follows_it_as_it_rotates(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    access = await read_access(None, None, account(tmp_path, "first\n"))
    assert (access.server, access.header) == ("https://[::1]:6443", "Bearer first")
    clock = ScaledClock()
    credentials = Credentials(access, clock)
    account(tmp_path, "second\n")
    assert await credentials.header() == "Bearer first"
    credentials._looked_s -= connection.REFRESH_S
    assert await credentials.header() == "Bearer second"
    (tmp_path / "token").write_text("")
    credentials._looked_s -= connection.REFRESH_S
    assert await credentials.header() == "Bearer second"
    assert "Token file exists but empty" in credentials.problem
    (tmp_path / "token").write_text("third")
    credentials._looked_s -= connection.REFUSED_S
    assert await credentials.header() == "Bearer third"
    assert credentials.problem == ""


async def test_a_pod_without_an_address_of_the_server_says_so(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InputError, match="Service host/port is not set"):
        await read_access(None, None, account(tmp_path, "x"))


@virtual
async def test_one_request_looks_for_a_new_token_and_the_others_do_not_wait() -> None:
    async def slow() -> str:
        await clock.sleep_until(clock.now() + 3.0)
        return "new"

    clock = ScaledClock()
    credentials = Credentials(Access("http://x", "old", slow), clock)
    await clock.sleep_until(connection.REFRESH_S)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(credentials.header())
        others = [group.create_task(credentials.header()) for _ in range(5)]
    assert [await other for other in others] == ["old"] * 5
    assert await first == "new"


@virtual
async def test_a_plugin_that_hangs_costs_five_seconds_and_the_old_token_stays() -> None:
    async def hanging() -> str:
        await asyncio.Event().wait()
        return "never"

    clock = ScaledClock()
    credentials = Credentials(Access("http://x", "old", hanging), clock)
    await clock.sleep_until(connection.REFRESH_S)
    assert await credentials.header() == "old"
    assert clock.now() == pytest.approx(connection.REFRESH_S + connection.LOOK_S)
    assert credentials.problem == "no credentials within 5 s"


async def test_why_there_is_no_better_token_stands_in_the_refusal(tmp_path: Path) -> None:
    async with FakeServer() as server:
        server.always = status(401, "Unauthorized", "Unauthorized")
        async with KubeApi.connect(
            kubeconfig=kubeconfig(tmp_path, server.url, {"token": "x"}), clock=WallClock()
        ) as api:
            api._credentials.problem = "the plugin said no"
            with pytest.raises(KubeError, match="Unauthorized; credentials: the plugin said no") as caught:
                await api.request("GET", "/version")
    assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of its own authority for 127.0.0.1, without the key identifiers that Python 3.13 asks for."""
    return made_keys(tmp_path_factory)


def made_keys(tmp_path_factory: pytest.TempPathFactory, authority: str = "kubernetes") -> Path:
    """The folder of such a certificate and its key."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl on PATH (Debian: apt install openssl)")
    folder = tmp_path_factory.mktemp("keys")
    (folder / "conf").write_text(
        f"[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\n[dn]\nCN={authority}\n"
        "[ext]\nbasicConstraints=critical,CA:TRUE\nsubjectAltName=IP:127.0.0.1\n"
    )
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -config conf "
        "-keyout key.pem -out cert.pem",
        shell=True, cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder


@asynccontextmanager
async def secure(keys: Path):
    """A TLS server that answers everything with ``{}``."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(keys / "cert.pem", keys / "key.pem")
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_the_clusters_own_authority_is_trusted_and_no_other(tmp_path: Path, keys: Path) -> None:
    async with secure(keys) as url:
        trusting = kubeconfig(tmp_path, url, {}, **{"certificate-authority": str(keys / "cert.pem")})
        async with KubeApi.connect(kubeconfig=trusting, clock=WallClock()) as api:
            assert (await api.request("GET", "/version")).body == b"{}"
        async with KubeApi.connect(kubeconfig=kubeconfig(tmp_path, url, {}), clock=WallClock()) as api:
            with pytest.raises(KubeError, match="certificate verify failed") as caught:
                await api.request("GET", "/version")
            assert caught.value.fault is Fault.UNAVAILABLE
        careless = kubeconfig(tmp_path, url, {}, **{"insecure-skip-tls-verify": True})
        async with KubeApi.connect(kubeconfig=careless, clock=WallClock()) as api:
            assert (await api.request("GET", "/version")).body == b"{}"


async def test_an_authority_that_takes_anothers_place_is_trusted_within_a_minute(
    tmp_path: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Else a follower in a cluster whose authority is replaced takes over from nobody until it is restarted."""
    trusted, after = tmp_path / "ca.crt", made_keys(tmp_path_factory, "another")
    shutil.copy(keys / "cert.pem", trusted)
    async with secure(keys) as before_url, secure(after) as url:
        (tmp_path / "token").write_text("first")
        path = kubeconfig(
            tmp_path, url, {"tokenFile": str(tmp_path / "token")}, **{"certificate-authority": str(trusted)}
        )
        async with KubeApi.connect(kubeconfig=path, clock=WallClock()) as api:
            with pytest.raises(KubeError, match="certificate verify failed"):
                await api.request("GET", "/version")
            trusted.write_text("half of a file")
            (tmp_path / "token").write_text("second")
            api._credentials._looked_s -= connection.REFRESH_S
            with pytest.raises(KubeError, match="certificate verify failed"):
                await api.request("GET", "/version")
            assert "its certificates cannot be used" in api._credentials.problem
            assert await api.introduction() == "Bearer second", "a token does not wait for it"
            shutil.copy(after / "cert.pem", trusted)
            api._credentials._looked_s -= connection.REFUSED_S
            assert (await api.request("GET", "/version")).body == b"{}"
            assert api._credentials.problem == ""
            api.server = before_url
            assert (await api.request("GET", "/version")).body == b"{}", "servers change one after the other"


def test_importing_the_client_does_not_import_the_vendors() -> None:
    code = "import sys, autoscaler.adapters.kube.api; sys.exit('kubernetes_asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_server_that_the_network_lost_is_noticed_within_half_a_minute() -> None:
    """Between two network namespaces, the far address taken away, a watch broke 30.4 s after its last line."""

    async def nobody() -> None:
        """There is no token."""

    async with FakeServer() as server, connection.open_session(Access(server.url, None, nobody)) as session:
        server.always = lines(b"a line\n", then="hang")
        async with session.get(server.url) as stream:
            assert stream.connection is not None
            assert stream.connection.transport is not None
            made = stream.connection.transport.get_extra_info("socket")
            assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            idle_s, every_s, probes = (
                made.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            )
    assert idle_s + probes * every_s == connection.GONE_AFTER_S
