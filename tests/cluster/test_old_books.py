"""Lists that break after they were read once: what they told is believed for a while, and nobody acts on it later.

One resource at a time answers 500 while all others pass, as behind a conversion webhook that is down.
"""

import json
import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.proxy import Proxy, Rule
from tests.cluster.scene import FLOOD, WITHIN_S, Scene, policy
from tests.cluster.service import Service
from tests.cluster.test_http_faults import harm
from tests.cluster.test_rights_and_crds import MERGE, QUIET_S

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

NOTICED_S: Final = 10.0 + 1.0 + 6.0
"""What was read is believed for ten seconds and looked at every second; the rest is room for a loaded machine."""


@pytest.fixture(scope="module")
def proxy(plane: Plane) -> Iterator[Proxy]:
    with Proxy(plane) as made:
        yield made


@pytest.fixture(scope="module")
def scene(plane: Plane, proxy: Proxy) -> Iterator[Scene]:
    with Scene.begin(plane, "books", server=proxy.url) as made:
        yield made


def broken(resource: str) -> list[Rule]:
    words = f'conversion webhook for {resource} failed: Post "https://converter:443": no endpoints available'
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "reason": "InternalError"}
    body = json.dumps({**status, "message": words}).encode()
    return [Rule("GET", rf"/{resource}(\?|$)", status=500, body=body, headers={"Content-Type": "application/json"})]


def edit(service: Service, **spec: str) -> None:
    path = f"/apis/headroom.dev/v1alpha1/namespaces/{service.namespace}/scalingpolicies/{service.name}"
    service.plane.call("PATCH", path, {"spec": spec}, MERGE)


def test_a_pause_that_cannot_be_read_is_kept_all_the_same(scene: Scene, proxy: Proxy) -> None:
    service, ips = scene.serve("paused", asks=False, read=False)
    scene.plane.apply(policy(service, maxReplicas=6))
    wait_for(lambda: "SignalsFresh=True" in scene.explained(service), 30, "its signals")
    with harm(proxy, broken("scalingpolicies")):
        wait_for(lambda: scene.condition(service, "Active") == ("False", "NotHeard"), NOTICED_S, "a word about it")
        assert "conversion webhook for scalingpolicies failed" in scene.explained(service)
        edit(service, mode="Paused")
        scene.engines.of_all(ips, **FLOOD)
        time.sleep(QUIET_S)
        assert scene.decided(service)[-1]["verdict"] == "SCALE", "decided all the same"
        assert service.counts() == []
    wait_for(lambda: scene.condition(service, "Paused") == ("True", "Paused"), WITHIN_S, "the pause")
    assert service.counts() == []
    edit(service, mode="Active")
    wait_for(lambda: service.replicas() > 2, WITHIN_S, "growth when the pause ends")


@pytest.mark.parametrize("resource", ["horizontalpodautoscalers", "resourcequotas"])
def test_while_rivals_and_limits_cannot_be_read_it_grows_and_takes_nothing_away(
    scene: Scene, proxy: Proxy, resource: str
) -> None:
    service, ips = scene.serve(f"kept-{resource[:3]}", 3, max_replicas="6")
    with harm(proxy, broken(resource)):
        wait_for(lambda: scene.condition(service, "Active") == ("True", "NotHeard"), NOTICED_S, "a word about it")
        service.annotate(max_replicas="2")
        time.sleep(QUIET_S)
        assert service.counts() == [], "a lowered limit is an order, and waits"
        service.annotate(max_replicas="6")
        scene.engines.of_all(ips, **FLOOD)
        wait_for(lambda: service.replicas() > 3, WITHIN_S, "growth")
        assert service.shrinks() == []
    wait_for(lambda: scene.condition(service, "Active") == ("True", "Active"), WITHIN_S, "no more word of it")
    service.annotate(max_replicas="2")
    wait_for(lambda: service.shrinks() != [], 30, "the limit")
