"""Commands that a controller asks who they are: a token from the environment, or one of the readers' account."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from autoscaler.adapters.web.door import Door, Verdict
from autoscaler.adapters.web.hosts import INTRODUCTION
from autoscaler.cli.main import app
from tests.cli.plane import LEASE, OWN, POD, Plane, lease, plane
from tests.keda.certs import Authority
from tests.web.test_live import Controller, StoodStill

READER = f"/api/v1/namespaces/{OWN}/serviceaccounts/headroom-reader/token"


async def readers_alone(token: str, _path: str) -> Verdict:
    return Verdict(f"system:serviceaccount:{OWN}:headroom-reader", True) if token == "a.reader.s" else Verdict(None)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    door = Door(readers_alone, StoodStill(), f"{OWN}/headroom-reader")
    with plane(tmp_path, Controller(), door) as made:
        made.objects[LEASE] = lease()
        made.objects[LEASE]["metadata"]["annotations"]["headroom.dev/address"] = "https://10.0.0.7:8080"
        yield made


def asked(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_through_the_proxy_a_token_is_made_for_the_readers_account_and_the_persons_own_is_not_shown(
    cluster: Plane,
) -> None:
    code, out, err = asked("status", *cluster.options())
    assert (code, err) == (0, "")
    assert "prod/chat" in out
    assert set(cluster.proxied) == {f"/api/v1/namespaces/{OWN}/pods/https:{POD}:8080/proxy/api/status"}
    assert cluster.introduced[:2] == [None, "a.reader.s"]
    ((method, path, content),) = cluster.written
    assert (method, path, content["spec"]) == ("POST", READER, {"expirationSeconds": 600})


def test_a_token_of_the_environment_is_shown_in_its_place(cluster: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_TOKEN", "a.reader.s")
    assert asked("status", *cluster.options())[0] == 0
    assert set(cluster.introduced) == {"a.reader.s"}
    assert cluster.written == []
    monkeypatch.setenv("HEADROOM_TOKEN", "forged")
    code, _, err = asked("status", *cluster.options())
    assert code == 1
    assert err.startswith("error: this token is not, or no longer, one of this cluster's; take one by kubectl -n ")
    assert cluster.written == [], "a wrong token is told, not gone around"


def test_who_may_make_none_is_told_why_and_how_to_take_one(cluster: Plane) -> None:
    cluster.forbidden.add(f"POST {READER}")
    code, _, err = asked("status", *cluster.options())
    assert code == 1
    assert err.startswith(f"error: who asks? take one by kubectl -n {OWN} create token headroom-reader, and show it ")
    assert f"(one could not be made here: POST {READER}: 403" in err


class Heard(BaseHTTPRequestHandler):
    """Writes down what is shown, and answers nothing of use."""

    shown: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.shown.append(self.headers.get(INTRODUCTION))
        self.send_response(404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server over TLS whose certificate names localhost: its URL and its authority."""
    authority = Authority(tmp_path, "own")
    pair = authority.sign("headroom", "DNS:localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    with HTTPServer(("127.0.0.1", 0), Heard) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://localhost:{server.server_port}", authority.cert
        server.shutdown()
        thread.join()


@pytest.mark.needs("openssl")
def test_a_url_is_shown_the_token_over_tls_and_only_where_the_certificate_is_trusted(
    secure: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, authority = secure
    monkeypatch.setattr(Heard, "shown", [])
    monkeypatch.setenv("HEADROOM_TOKEN", "mine")
    code, _, err = asked("status", "--server", url)
    assert code == 1
    assert "its certificate is not trusted: " in err
    assert err.rstrip().endswith("name its authority's file in HEADROOM_CA_FILE")
    monkeypatch.setenv("HEADROOM_CA_FILE", str(authority))
    assert asked("status", "--server", url)[2].endswith("404 Not Found ''; is it the controller that answers there?\n")
    assert Heard.shown == ["mine"]
    monkeypatch.setenv("HEADROOM_CA_FILE", "/nowhere")
    assert "HEADROOM_CA_FILE: /nowhere: No such file or directory" in asked("status", "--server", url)[2]


def test_a_url_without_tls_is_shown_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Heard, "shown", [])
    monkeypatch.setenv("HEADROOM_TOKEN", "mine")
    with HTTPServer(("127.0.0.1", 0), Heard) as server:
        thread = threading.Thread(target=server.handle_request, daemon=True)
        thread.start()
        asked("status", "--server", f"http://127.0.0.1:{server.server_port}")
        thread.join()
    assert Heard.shown == [None]
