"""Where load may go."""

import pytest

from autoscaler.errors import InputError
from loadtests.traffic.target import parse_target


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/completions"),
        ("127.30.0.9:8000/", "http://127.30.0.9:8000/v1/completions"),
        ("https://localhost:8000/v1", "https://localhost:8000/v1/completions"),
        ("http://[::1]:80/team/a", "http://[::1]:80/team/a/v1/completions"),
        ("http://localhost/v1/chat/completions", "http://localhost/v1/chat/completions"),
    ],
)
def test_this_machine_is_a_target_however_it_is_written(text: str, url: str) -> None:
    assert parse_target(text, api=None, allowed=[]).url == url


@pytest.mark.parametrize(
    "host", ["example.com", "10.0.0.7", "127.0.0.1.example.com", "localhost.example.com", "0.0.0.0"]
)
def test_another_host_is_refused_unless_it_is_named(host: str) -> None:
    with pytest.raises(InputError, match=f"--allow-host {host}"):
        parse_target(f"http://{host}:8000", api=None, allowed=["other"])
    assert parse_target(f"http://{host}:8000", api="chat", allowed=[host]).url.endswith("/v1/chat/completions")


@pytest.mark.parametrize("text", ["", "ftp://127.0.0.1", "http://", "http://127.0.0.1:notaport", "http://u:p@127.0.0.1",
                                  "http://127.0.0.1/?a=b", "http://[::1"])  # fmt: skip
def test_what_is_no_url_of_a_service_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"no URL|write http"):
        parse_target(text, api=None, allowed=[])
