"""Which names a request may give: those that can only mean this server, whatever a foreign page calls itself."""

import pytest

from autoscaler.adapters.web.hosts import Hosts

HOSTS = Hosts("headroom-system", ("scaler.corp.example",))

OURS = [
    "localhost", "localhost:8080", "127.0.0.1:8080", "10.0.0.7", "[::1]:8080", "[fd00::7]", "headroom:8080",
    "headroom.headroom-system:8080", "headroom.headroom-system.svc", "headroom.headroom-system.svc.cluster.local:8080",
    "HEADROOM.headroom-system.SVC.", "scaler.corp.example", "Scaler.Corp.Example:443",
]  # fmt: skip

FOREIGN = [
    "", ":8080", "rebound.example", "rebound.example:8080", "localhost.rebound.example", "127.0.0.1.rebound.example",
    "headroom.headroom-system.svc.rebound.example", "headroom.other-system", "svc.example", "corp.example",
    "x.scaler.corp.example", ".svc",
]  # fmt: skip


@pytest.mark.parametrize("host", OURS)
def test_a_name_that_no_public_site_can_have_or_that_the_settings_give_is_ours(host: str) -> None:
    assert HOSTS.admits({"Host": host})


@pytest.mark.parametrize("host", FOREIGN)
def test_any_other_name_is_foreign(host: str) -> None:
    assert not HOSTS.admits({"Host": host})
    assert HOSTS.admits({"Host": host, "Sec-Headroom": "command"}), "no script may set it"


def test_a_namespace_that_is_called_as_a_countrys_domain_lets_none_of_its_names_in() -> None:
    hosts = Hosts("ai")
    assert not hosts.named("evil.ai:8080")
    assert hosts.named("headroom.ai.svc:8080")
    assert hosts.named("headroom.ai.svc.cluster.local")
