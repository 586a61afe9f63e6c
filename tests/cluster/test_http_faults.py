"""HTTP between the controller and the API server fails in every way that servers and proxies know, with a burst on.

One controller reaches the server through a proxy. A fault is put in its way, then a burst begins, then the fault ends.
Lease renewals pass: without them the process would rightly end, which is test_leadership's subject.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pytest

from tests.cluster.controller import NAMESPACE
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.proxy import Proxy, Rule
from tests.cluster.scene import FLOOD, QUEUE, WITHIN_S, Scene

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

LASTS_S: Final = 5.0
"""How long a fault goes on after it was told."""

PASSED: Final = r"^(?!.*/leases/)"
"""What a fault of everything leaves alone."""


BELIEVED_S: Final = 10.0
"""How long what was read is acted upon while nothing more is heard."""

METHODS: Final = ("GET", "PATCH")

RETRY_AFTER_S: Final = 2.0

HURRIED_S: Final = 0.1
HERD: Final = 8
"""So many questions, each sooner than that after the one before, are a herd."""


def _said(code: int, reason: str, words: str) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return json.dumps({**status, "message": words}).encode()


def _refuse(method: str, pattern: str, status: int, body: bytes, **headers: str) -> Rule:
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return Rule(method, pattern, status=status, body=body, headers=named)


def _too_many() -> list[Rule]:
    body = _said(429, "TooManyRequests", "the server has received too many requests")
    seconds = f"{RETRY_AFTER_S:g}"
    return [_refuse(m, PASSED, 429, body, retry_after=seconds, content_type="application/json") for m in METHODS]


def _html() -> list[Rule]:
    body = b"<html><head><title>Oops</title></head><body>Internal error of a gateway</body></html>"
    return [_refuse(method, PASSED, 500, body, content_type="text/html") for method in METHODS]


def _html_as_if_all_were_well() -> list[Rule]:
    body = b"<html><body>Please log in to this network</body></html>"
    return [_refuse(method, PASSED, 200, body, content_type="text/html") for method in METHODS]


def _cut_in_mid_line() -> list[Rule]:
    return [Rule("GET", r"watch=true", cut_after_bytes=200)]


def _old_version() -> list[Rule]:
    return [_refuse("GET", r"watch=true", 410, _said(410, "Expired", "too old resource version"))]


def _old_version_in_the_stream() -> list[Rule]:
    gone = json.loads(_said(410, "Expired", "too old resource version"))
    return [Rule("GET", r"watch=true", line=json.dumps({"type": "ERROR", "object": gone}).encode())]


def _old_page() -> list[Rule]:
    """Lists are asked for because watches are refused, in pages of one object, and no second page is to be had."""
    return [
        _refuse("GET", r"continue=", 410, _said(410, "Expired", "the continue parameter is too old")),
        Rule("GET", r"(pods|deployments)\?limit=", query={"limit": "1"}),
        *_old_version(),
    ]


@dataclass(frozen=True)
class Fault:
    """Its rules, and the words by which a person learns of it."""

    rules: Callable[[], list[Rule]]
    words: str
    blocks: bool = False
    """Nothing can be written while it lasts."""
    listed: bool = False
    """What changes while it lasts can be read all the same, by listing."""


FAULTS: Final = {
    "429-with-retry-after": Fault(_too_many, "429 TooManyRequests", blocks=True),
    "500-with-html": Fault(_html, "an HTML page", blocks=True),
    "200-with-html": Fault(_html_as_if_all_were_well, "an HTML page", blocks=True),
    "watch-cut-in-mid-line": Fault(_cut_in_mid_line, "stream"),
    "410-for-a-watch": Fault(_old_version, "410 Expired", listed=True),
    "410-in-a-watch": Fault(_old_version_in_the_stream, "410 Expired", listed=True),
    "410-for-a-page": Fault(_old_page, "410 Expired", listed=True),
}


@pytest.fixture(scope="module")
def proxy(plane: Plane) -> Iterator[Proxy]:
    with Proxy(plane) as made:
        yield made


@pytest.fixture(scope="module")
def scene(plane: Plane, proxy: Proxy) -> Iterator[Scene]:
    with Scene.begin(plane, "http", server=proxy.url) as made:
        made.serve("0-first")  # so that what a list begins with is not what the tests look at
        yield made


@contextmanager
def harm(proxy: Proxy, rules: list[Rule]) -> Iterator[None]:
    """Let rules hold for the block; what was opened before them, or under them, is closed."""
    try:
        _rule(proxy, rules)
        yield
    finally:
        _rule(proxy, [])


def _rule(proxy: Proxy, rules: list[Rule]) -> None:
    proxy.rules = rules
    proxy.cut()
    proxy.mend()


@pytest.mark.parametrize("name", FAULTS)
def test_a_burst_under_a_fault_is_served_once_it_ends_and_told_meanwhile(scene: Scene, proxy: Proxy, name: str) -> None:
    fault = FAULTS[name]
    service, ips = scene.serve(name, max_replicas="6")
    rules = fault.rules()
    with harm(proxy, rules):
        scene.engines.of_all(ips, **QUEUE)
        wait_for(lambda: fault.words in scene.told(service), 30, f"a word about {name}", every_s=0.2)
        if fault.listed:
            service.annotate(max_replicas="5")
            wait_for(lambda: scene.row(service)["max_replicas"] == 5, LASTS_S, "what changes meanwhile")
            assert all(rule.hits for rule in rules)
        else:
            time.sleep(LASTS_S)
            assert scene.row(service)["max_replicas"] == 6, "what was read before stays"
        assert not fault.blocks or service.replicas() == 2
        assert rules[0].hits
        hurried = [gap_s for rule in rules for gap_s in rule.gaps_s() if gap_s < HURRIED_S]
        assert fault.listed or len(hurried) < HERD  # a 410 is answered by a list at once
        assert scene.controller.returncode is None
    wait_for(lambda: service.replicas() > 2, WITHIN_S, "growth after the fault")
    wait_for(lambda: fault.words not in scene.told(service), 30, "no more word of it", every_s=0.2)
    assert not service.shrinks()


def test_a_server_that_asks_for_patience_is_given_it(scene: Scene, proxy: Proxy) -> None:
    scene.serve("patient")
    lists, writes = _too_many()
    with harm(proxy, [lists, writes]):
        time.sleep(4 * RETRY_AFTER_S)
    gaps_s = lists.gaps_s()
    assert gaps_s, "somebody asked again"
    assert min(gaps_s) >= RETRY_AFTER_S


def test_watches_that_are_opened_and_show_nothing_are_not_believed_for_long(scene: Scene, proxy: Proxy) -> None:
    service, ips = scene.serve("unseen", max_replicas="6")
    with harm(proxy, _cut_in_mid_line()):
        service.annotate(mode="Paused")
        told = re.compile(r"not heard for (1[2-9]|[2-9]\d) s: GET /apis/apps")
        wait_for(lambda: told.search(scene.explained(service)), BELIEVED_S + 15, "a word about it")
        scene.engines.of_all(ips, **QUEUE)
        time.sleep(LASTS_S)
    wait_for(lambda: scene.condition(service, "Paused")[0] == "True", WITHIN_S, "the pause that nobody saw")
    assert service.counts() == []


def test_a_freeze_that_a_silent_watch_does_not_show_is_kept(scene: Scene, proxy: Proxy) -> None:
    service, ips = scene.serve("unshown", max_replicas="6")
    freeze = ("-n", NAMESPACE, "configmap", "headroom-freeze")
    scene.plane.kubectl("delete", *freeze, "--ignore-not-found")
    with harm(proxy, [Rule("GET", r"configmaps\?.*watch=true", silent=True)]):
        time.sleep(BELIEVED_S + LASTS_S)
        scene.plane.kubectl("create", *freeze, "--from-literal=freeze=incident 7")
        try:
            scene.engines.of_all(ips, **FLOOD)
            wait_for(lambda: scene.condition(service, "Active") == ("False", "Frozen"), 20, "the freeze to be met")
            assert "the whole cluster is frozen: incident 7" in scene.explained(service)
            assert "the freeze is not as its watch showed it" in str(scene.acts(service))
            assert service.counts() == []
        finally:
            scene.plane.kubectl("delete", *freeze)
    wait_for(lambda: service.replicas() > 2, WITHIN_S, "growth after the freeze")


def test_an_event_of_five_megabytes_is_read_like_any_other(scene: Scene, proxy: Proxy) -> None:
    service, ips = scene.serve("large-event", max_replicas="6")
    large = scene.plane.call("GET", service.path)
    large["metadata"]["annotations"] |= {"note": "x" * 5_000_000, "headroom.dev/max-replicas": "3"}
    large["metadata"]["resourceVersion"] = "1"
    line = json.dumps({"type": "MODIFIED", "object": large}).encode()
    with harm(proxy, [Rule("GET", r"deployments\?.*watch=true", line=line)]):
        wait_for(lambda: scene.row(service).get("max_replicas") == 3, 20, "the policy that came with it")
        told = f"an event of 5.0 MB about deployments {service.workload} keeps others waiting"
        wait_for(lambda: told in scene.explained(service), WITHIN_S, "a word about it")
        scene.engines.of_all(ips, **FLOOD)
        wait_for(lambda: service.replicas() == 3, WITHIN_S, "growth up to what the event says")
    wait_for(lambda: service.replicas() > 3, 60, "growth beyond it, up to what the object says")
    wait_for(lambda: told not in scene.explained(service), WITHIN_S, "no more word of it")
    assert not service.shrinks()
    assert scene.controller.returncode is None
