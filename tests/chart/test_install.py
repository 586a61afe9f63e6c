"""The chart's life on a real API server: installed, at work under its own account and rights, upgraded, taken away."""

import json
import re
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.chart.release import Pod, Release, files
from tests.chart.rendering import NAMESPACE, objects, render
from tests.chart.test_rights import granted
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import FLOOD, QUIET
from tests.cluster.service import Service
from tests.conftest import ROOT

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(300)]

ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:headroom"
KEDA: Final[dict[str, Any]] = {"settings": {"keda": {"enabled": True}}}
DEFINITIONS: Final = {"scalingpolicies.headroom.dev", "warmpools.headroom.dev", "batchqueues.headroom.dev"}
UNUSED: Final = {
    **dict.fromkeys(
        [(group, f"{resource}/scale", verb) for verb in ("get", "patch") for group, resource in (
            ("apps", "statefulsets"), ("leaderworkerset.x-k8s.io", "leaderworkersets"))],
        "nothing of that kind is scaled here",
    ),
    **dict.fromkeys(
        [("leaderworkerset.x-k8s.io", "leaderworkersets", "watch"), ("keda.sh", "scaledobjects", "watch"),
         ("autoscaling.k8s.io", "verticalpodautoscalers", "watch")],
        "not served here: a list is all that can be tried",
    ),
    ("apps", "deployments/scale", "get"): "a change whose outcome is unknown is read back",
    ("coordination.k8s.io", "leases", "create"): "the chart's lease is there; one that is deleted is made anew",
    ("", "configmaps", "delete"): "a checkpoint that has become smaller gives shards up",
    ("", "events", "patch"): "an event that comes again is counted up",
    ("headroom.dev", "scalingpolicies/status", "patch"): "no policy is written here",
    ("", "configmaps", "update"): "a second checkpoint takes longer than this",
}  # fmt: skip
"""Rights that no request of this suite needs, and who does."""
OLD: Final = "headroom.dev/renew-after=1"
NAME: Final = f"headroom-keda.{NAMESPACE}"


def test_it_is_installed_shadows_acts_is_upgraded_and_leaves_its_definitions_only(
    bare: Plane, engines: Engines, tmp_path: Path
) -> None:
    before = everything(bare)
    release = Release(bare)
    notes = release.install(KEDA)
    assert "in Shadow it decides and records, and touches nothing".lower() in notes.lower()
    bare.kubectl("wait", "--for=condition=Established", "crd/scalingpolicies.headroom.dev", "--timeout=30s")
    wait_for(lambda: len(release.pods()) == 2, 30, "the chart's pods")

    bare.kubectl("create", "namespace", "prod")
    service = Service(bare, engines, "prod", "chat", replicas=2, max_replicas="6")
    engines.of_all(service.wait_ready(2), **QUIET)
    leader, _ = release.pods()
    with Pod(release, leader) as pod:
        pod.wait_leading()
        wait_for(lambda: "SignalsFresh=True" in told(pod), 30, "fresh signals")
        engines.of_all(service.ips(), **FLOOD)
        wait_for(lambda: "wanted" in told(pod) or "asked for" in told(pod), 30, "a decision")
        time.sleep(5)
        assert service.replicas() == 2, "in Shadow nothing is touched"
        service.annotate(mode="Active")
        wait_for(lambda: service.replicas() > 2, 30, "growth under the chart's rights")

        wait_for(lambda: labelled(release) == [leader], 10, "the label by which KEDA's Service finds it")
        said = doctor(bare)
        assert {row["state"] for row in said if row["check"] == "rights"} == {"ok"}, said
        assert {row["state"] for row in said if row["check"] == "lease"} == {"ok"}
        passes_the_charts_test(release, pod)
        greets(pod.keda_port, files(release.get("secret", "headroom-keda-tls"), tmp_path), None)
        callers = bare.kubectl("-n", "keda", "get", "secret", "headroom-keda-client", "-o", "json")
        greets(pod.keda_port, pod.server, files(json.loads(callers), tmp_path))
        upgraded(release)
        assert pod.stop() == 0
    rights_are_those_that_are_used(bare)

    release.uninstall()
    bare.kubectl("delete", "namespace", "prod", "--wait=false")
    left = everything(bare) - before
    checkpoints = {one for one in left if re.match(r"configmap/headroom-(checkpoint|warmup|shadow)-", one)}
    assert checkpoints
    assert left - checkpoints == {f"customresourcedefinition.apiextensions.k8s.io/{one}" for one in DEFINITIONS}
    release.install({})
    release.uninstall()
    for row in doctor(bare, "--leftovers"):
        bare.kubectl(*row["remedy"].split()[1:])
    assert everything(bare) == before, "what doctor --leftovers lists is all there is"


def test_the_chart_as_it_was_is_upgraded_to_the_chart_as_it_is(bare: Plane, tmp_path: Path) -> None:
    git = ("git", "-C", str(ROOT))
    log = subprocess.run([*git, "log", "--format=%H", "--", "charts/headroom"], capture_output=True, check=False)
    earlier = log.stdout.decode().split()[-1:]
    if not earlier:
        pytest.skip("no history of the chart in this checkout (git)")
    packed = subprocess.run([*git, "archive", *earlier, "charts/headroom"], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", tmp_path], input=packed.stdout, check=True)
    release = Release(bare, "headroom-old")
    release.install(KEDA, tmp_path / "charts/headroom")
    before = release.get("secret", "headroom-keda-tls")["data"]
    older = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/tickS"
    forgotten = json.dumps([{"op": "remove", "path": older}])
    bare.kubectl("patch", "crd", "scalingpolicies.headroom.dev", "--type=json", f"--patch={forgotten}")
    told = "ScalingPolicy scalingpolicies.headroom.dev is older than this version: it drops spec.tickS"
    assert told in odd(bare)
    release.upgrade({"settings": {"keda": {"enabled": True}, "warm_pools": {"enabled": True}}})
    assert release.get("secret", "headroom-keda-tls")["data"] == before
    policy = json.loads(bare.kubectl("get", "validatingadmissionpolicy", "headroom-slots", "-o", "json"))
    assert not [row for row in odd(bare) if "older" in row], "definitions are upgraded with the chart"
    assert not policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings")
    assert bare.kubectl("get", "namespace", "headroom-slots", "-o", "name")
    done = bare.kubectl("-n", release.namespace, "rollout", "status", "deployment/headroom", "--timeout=60s")
    assert "successfully rolled out" in done
    release.uninstall()
    bare.kubectl("delete", "crd", *sorted(DEFINITIONS))


def upgraded(release: Release) -> None:
    """An upgrade keeps certificates that are young, renews old ones under the same authority, and rolls the pods."""

    def data() -> tuple[dict[str, str], dict[str, str], str]:
        server, authority = release.get("secret", "headroom-keda-tls"), release.get("secret", "headroom-keda-ca")
        template = release.get("deployment", "headroom")["spec"]["template"]
        return server["data"], authority["data"], template["metadata"]["annotations"]["checksum/settings"]

    installed = data()
    release.upgrade(KEDA | {"replicas": 3})
    assert data() == installed
    assert release.get("deployment", "headroom")["spec"]["replicas"] == 3
    release.plane.kubectl("-n", release.namespace, "annotate", "--overwrite", "secret", "headroom-keda-tls", OLD)
    changed = {"settings": {"keda": {"enabled": True}, "log_level": "debug"}}
    release.upgrade(changed)
    server, authority, checksum = data()
    assert authority == installed[1]
    assert server["ca.crt"] == installed[0]["ca.crt"]
    assert server["tls.crt"] != installed[0]["tls.crt"]
    assert checksum != installed[2]


def passes_the_charts_test(release: Release, pod: Pod) -> None:
    """What `helm test` runs in a pod, run here: fake pods run nothing."""
    (test,) = objects(release.hooks())
    (container,) = test["spec"]["containers"]
    script, *addresses = container["args"]
    assert addresses == [f"http://headroom.{NAMESPACE}:8080", f"{NAME}:8090"]
    here = [pod.url, f"127.0.0.1:{pod.keda_port}"]
    done = subprocess.run([sys.executable, "-c", script, *here], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "answers at" in done.stdout


def greets(port: int, server: Path, caller: Path | None) -> None:
    """Shake hands on the port for KEDA as `caller`, or without a certificate, which must be refused."""
    context = ssl.create_default_context(cafile=str(server / "ca.crt"))
    context.set_alpn_protocols(["h2"])
    if caller is not None:
        context.load_cert_chain(caller / "tls.crt", caller / "tls.key")
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    with context.wrap_socket(plain, server_hostname=NAME) as wrapped:
        if caller is not None:
            assert wrapped.recv(1), "HTTP/2 begins"
            return
        try:
            heard = wrapped.recv(1)
        except OSError:
            heard = b""
        assert heard == b"", "whoever shows no certificate is not let in"


def told(pod: Pod) -> str:
    """What is told of the workload; empty while it is not known."""
    command = [sys.executable, "-m", "autoscaler", "explain", "prod/chat", "--server", pod.url]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def labelled(release: Release) -> list[str]:
    """The pods that KEDA's Service selects."""
    selector = release.get("service", "headroom-keda")["spec"]["selector"]
    words = ",".join(f"{name}={value}" for name, value in selector.items())
    return (
        release.plane.kubectl("-n", release.namespace, "get", "pods", "-l", words, "-o", "name")
        .replace("pod/", "")
        .split()
    )


def doctor(plane: Plane, *options: str) -> list[dict[str, Any]]:
    """What `headroom doctor` finds, once the API server has room for definitions that Helm has just touched."""
    kubeconfig = str(plane.folder / "admin.kubeconfig")
    command = [sys.executable, "-m", "autoscaler", "doctor", "--kubeconfig", kubeconfig, "--json", *options]
    for _ in range(20):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "storage is (re)initializing" not in done.stderr:
            break
        time.sleep(1)
    assert done.stdout, done.stderr
    return list(json.loads(done.stdout))


def odd(plane: Plane) -> list[str]:
    """What `headroom doctor` warns of."""
    return [f"{row['check']} {row['words']}" for row in doctor(plane) if row["state"] != "ok"]


def rights_are_those_that_are_used(plane: Plane) -> None:
    """The audit log has no request of the account that was refused, and says which rights no request needed."""
    entries = [json.loads(line) for line in plane.audit.read_text().splitlines()]
    own = [one for one in entries if one["user"]["username"] == ACCOUNT and "objectRef" in one]
    assert not [one["requestURI"] for one in own if one.get("responseStatus", {}).get("code") == 403]
    used = set()
    for verb, ref in ((one["verb"], one["objectRef"]) for one in own):
        used.add((ref.get("apiGroup", ""), "/".join(filter(None, (ref["resource"], ref.get("subresource")))), verb))
    given = {row[:3] for row in granted(render(KEDA))}
    assert used <= given
    assert given - used <= UNUSED.keys()


def everything(plane: Plane) -> set[str]:
    """Every object in the cluster that an installation could leave, by kind and name."""
    kinds = ("customresourcedefinitions", "clusterroles", "clusterrolebindings", "priorityclasses",
             "clustertriggerauthentications")  # fmt: skip
    names = plane.kubectl("get", ",".join(kinds), "-o", "name").split()
    inside = ("secrets", "configmaps", "services", "deployments", "roles", "rolebindings", "leases", "serviceaccounts",
              "networkpolicies", "poddisruptionbudgets")  # fmt: skip
    for namespace in (NAMESPACE, "keda"):
        names += plane.kubectl("-n", namespace, "get", ",".join(inside), "-o", "name").split()
    return {one for one in names if not one.endswith(("/kube-root-ca.crt", "serviceaccount/default"))}
