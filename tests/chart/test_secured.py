"""The HTTP port over TLS, for accounts that may read: installed by Helm on a real API server that says who is who."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest

from tests.chart.release import Pod, Release
from tests.chart.rendering import NAMESPACE, objects
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(300)]

SECURE: Final[dict[str, Any]] = {
    "certificates": {"http": True},
    "settings": {"http": {"authorize": True}},
    "rbac": {"readers": [{"namespace": "monitoring", "name": "prometheus"}]},
}
ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:headroom"


def code(pod: Pod, path: str, token: str | None = None) -> int:
    """The status of an answer."""
    try:
        pod.get(path, token)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    return 200


def reviews(plane: Plane) -> int:
    """How often the controller has asked the API server whose a token is."""
    return len(plane.audited(verb="create", resource="tokenreviews", user=ACCOUNT))


def test_it_answers_over_tls_and_only_accounts_that_may_read(bare: Plane, tmp_path: Path) -> None:
    bare.kubectl("create", "namespace", "monitoring")
    for name in ("prometheus", "stranger"):
        bare.kubectl("-n", "monitoring", "create", "serviceaccount", name)
    release = Release(bare)
    release.install(SECURE)
    wait_for(lambda: len(release.pods()) == 2, 30, "the chart's pods")
    prometheus, stranger = (bare.token("monitoring", name) for name in ("prometheus", "stranger"))
    with Pod(release, release.pods()[0]) as leader:
        leader.wait_leading()
        wait_for(lambda: code(leader, "/readyz") == 200, 30, "the leader to be ready")
        assert [code(leader, path) for path in ("/healthz", "/readyz", "/metrics", "/", "/api/status")] == [
            200, 200, 401, 401, 401,
        ]  # fmt: skip
        assert (code(leader, "/metrics", "forged"), code(leader, "/metrics", bare_admin(bare))) == (401, 200)
        for path in ("/metrics", "/", "/api/status", "/api/overload"):
            assert (code(leader, path, prometheus), code(leader, path, stranger)) == (200, 403), path
        with pytest.raises(OSError):  # noqa: PT011 - how a connection ends is the machine's
            urllib.request.urlopen(f"http://127.0.0.1:{leader.port}/healthz", timeout=5)
        asked = reviews(bare)
        for _ in range(5):
            assert code(leader, "/metrics", prometheus) == 200
        assert reviews(bare) == asked, "what was looked up is kept"

        with Pod(release, release.pods()[1]) as follower:
            wait_for(lambda: age_s(follower, prometheus) is not None, 60, "the leader's snapshot at the follower")
            assert code(leader, "/api/snapshot", prometheus) == 403, "that is for replicas"
            assert follower.stop() == 0

        assert "leads (version" in leader.ask("status")
        passes_the_charts_test(release, leader)
        rights = bare.audited(verb="create", resource="subjectaccessreviews", user=ACCOUNT)
        assert rights
        assert all(one["responseStatus"]["code"] == 201 for one in rights), "the chart's account may ask"
        assert leader.stop() == 0
    release.uninstall()
    left = bare.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name")
    assert "headroom" not in left
    bare.kubectl("delete", "namespace", "monitoring", "--wait=false")


def bare_admin(plane: Plane) -> str:
    """The token of somebody who may do everything."""
    return (plane.folder / "tokens.csv").read_text().partition(",")[0]


def age_s(pod: Pod, token: str) -> float | None:
    """How old the snapshot is that a follower holds; None while it holds none."""
    try:
        found = re.search(r"^headroom_snapshot_age_seconds ([\d.e+-]+)$", pod.get("/metrics", token), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else float(found[1])


def passes_the_charts_test(release: Release, pod: Pod) -> None:
    """What `helm test` runs in a pod, run here with the files that it would have there."""
    (test,) = objects(release.hooks())
    assert test["spec"]["serviceAccountName"] == "headroom-reader"
    (container,) = test["spec"]["containers"]
    script, address = container["args"]
    assert address == f"https://headroom.{NAMESPACE}.svc:8080"
    token = pod.server / "token"
    token.write_text(pod.env["HEADROOM_TOKEN"])
    given = {one["name"] for one in container["env"]}
    env = {"AUTHORITY": str(pod.server / "ca.crt"), "TOKEN": str(token)}
    assert given == env.keys()
    done = subprocess.run([sys.executable, "-c", script, pod.url], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"answers at {pod.url}\n")


def test_the_port_shows_a_certificate_though_nobody_answers_keda(bare: Plane) -> None:
    release = Release(bare, "headroom-plain")
    release.install({"certificates": {"http": True}, "crds": {"install": False}})
    try:
        secrets = bare.kubectl("-n", release.namespace, "get", "secrets", "-o", "json")
        names = {one["metadata"]["name"] for one in json.loads(secrets)["items"]}
        assert {"headroom-keda-tls", "headroom-keda-ca"} <= names
        assert "headroom-keda-client" not in names
        assert not bare.kubectl("-n", "keda", "get", "secrets", "-o", "name")
    finally:
        release.uninstall()
