"""What the process shows of itself to the other replica."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoscaler.adapters.web.hosts import Hosts
from autoscaler.adapters.web.live import Place, serving_live
from autoscaler.adapters.web.tls import Greeting, Tls
from autoscaler.app import parts
from autoscaler.app.outside import connected
from autoscaler.settings.http import Http, HttpTls
from autoscaler.settings.model import Settings
from autoscaler.settings.parts import Kube
from tests.app.test_live import NOWHERE
from tests.keda.certs import Authority
from tests.kube.machines import LEASE, Contest
from tests.kube.test_lease import FREE, virtual
from tests.web.test_live import Controller
from tests.web.test_tls import Listening


@pytest.mark.needs("openssl")
@pytest.mark.parametrize(("authorize", "shown"), [(True, "Bearer none"), (False, None)], ids=["asks", "asks nobody"])
async def test_the_controllers_token_is_shown_only_where_replicas_are_asked_who_they_are(
    tmp_path: Path, authorize: bool, shown: str | None
) -> None:
    """It may patch workloads: over TLS alone, whoever holds the lease's address has no use for it."""
    (tmp_path / "config").write_text(NOWHERE)
    authority = Authority(tmp_path, "own")
    pair = authority.sign("headroom", "DNS:localhost")
    tls = HttpTls(cert_file=pair.cert, key_file=pair.key, ca_file=authority.cert, server_name="localhost")
    settings = Settings(kube=Kube(kubeconfig=tmp_path / "config"), http=Http(tls=tls, authorize=authorize))
    heard: list[Mapping[str, str]] = []
    door: Any = Listening(heard)
    controller = Controller()
    place = Place("127.0.0.1", 0, Hosts("headroom-system"), Greeting(Tls(pair.cert, pair.key)), door)
    async with serving_live(controller.facts(), controller.hub, place) as port, connected(settings) as outside:
        assert await outside.peer.get(f"https://127.0.0.1:{port}", "/api/snapshot") == controller.snapshot
    assert [headers.get("Authorization") for headers in heard] == [shown]


@virtual
async def test_the_lease_names_a_pod_by_its_address_of_ipv6_as_a_url_does() -> None:
    contest = Contest(1, lease=FREE)
    machine = contest.machines[0]
    outside: Any = SimpleNamespace(lease_api=machine, clock=machine)
    settings = Settings(namespace="headroom", http=Http(advertised_host="fd00::7", port=8443))
    await parts.elector(settings, outside, "pod-a").campaign()
    assert contest.apis.objects[LEASE]["metadata"]["annotations"]["headroom.dev/address"] == "[fd00::7]:8443"
