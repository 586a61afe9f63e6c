"""`headroom doctor`: each thing that can be wrong is a row with a remedy, and only failures make the exit code 1."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from autoscaler.cli.checks import of_workload
from autoscaler.cli.definitions import DEFINITIONS
from autoscaler.cli.main import app
from autoscaler.record.hpa import WHERE, HpaPreview
from autoscaler.record.status import About, Problem, Rejected, WorkloadStatus
from autoscaler.record.stream import SignalFrame
from tests.cli.doctor import examined, installed, resources, rows, run
from tests.cli.plane import FREEZE, LEASE, OWN, POD, Plane, config, lease
from tests.web.test_live import CHAT, FOLLOWING


def test_a_cluster_that_is_well_is_all_ok_and_nothing_is_written(cluster: Plane) -> None:
    code, found = examined(cluster)
    assert (code, rows(found, "warn", "fail")) == (0, [])
    assert [row["check"] for row in found] == [
        "API server", "clock", "ScalingPolicy", "Deployment", "StatefulSet", "LeaderWorkerSet", "rights", "lease",
        "freeze", "controller", "prod/chat",
    ]  # fmt: skip
    assert ("rights", f"system:serviceaccount:{OWN}:headroom may do all 42 things that are needed") in rows(found, "ok")
    assert cluster.written == []


def test_a_definition_of_this_version_is_nothing_to_tell(cluster: Plane) -> None:
    cluster.objects.update(installed(lambda spec: None))
    _, found = examined(cluster)
    assert rows(found, "warn", "fail") == []
    cluster.objects.update(installed(lambda spec: spec["properties"].clear()))
    cluster.forbidden.add(f"GET {DEFINITIONS}")
    _, found = examined(cluster)
    assert rows(found, "warn", "fail") == [], "who may not read definitions is not bothered with them"


CONFIG_MAPS = f"/api/v1/namespaces/{OWN}/configmaps"


def releases(**texts: str) -> dict[str, Any]:
    """ConfigMaps of the chart's releases by their names, with one of something else of Helm's."""
    own = [{"metadata": {"name": name}, "data": {"settings.yaml": text}} for name, text in texts.items()]
    return {CONFIG_MAPS: {"items": [{"metadata": {"name": "other"}, "data": {"fleet.json": "{}"}}, *own]}}


def test_an_installation_of_one_team_is_examined_by_its_own_settings_and_may_lack_nodes(cluster: Plane) -> None:
    """It has no right of the whole cluster: by the usual settings all but nine of its rights would be missing."""
    cluster.objects.update(releases(headroom="watch_namespaces: [team-a, team-b]\nnamespace: headroom-system\n"))
    cluster.denied.update({"list nodes", "watch nodes"})
    code, found = examined(cluster)
    assert code == 0
    assert ("settings", f"those of ConfigMap {OWN}/headroom") in rows(found, "ok")
    (lacks,) = [row for row in found if row["state"] == "warn"]
    assert lacks["words"].endswith(
        "may not read nodes: how many GPUs the cluster has is not known, and nothing else is lost"
    )
    where = {review["spec"]["resourceAttributes"].get("namespace") for review in cluster.reviews}
    assert {"team-a", "team-b"} <= where
    asked = [review["spec"]["resourceAttributes"] for review in cluster.reviews]
    assert {one["resource"] for one in asked if not one.get("namespace")} == {"nodes"}


def test_a_right_that_the_chart_grants_is_restored_by_the_chart(cluster: Plane) -> None:
    cluster.objects.update(releases(headroom="batch: {enabled: true}\n"))
    cluster.denied.update({"list nodes", "patch deployments/scale"})
    code, found = examined(cluster)
    remedies = {row["words"].partition(" may not ")[2]: row["remedy"] for row in found if row["state"] == "fail"}
    restored = f"helm upgrade restores the chart's roles, or grant it to system:serviceaccount:{OWN}:headroom"
    assert code == 1
    assert remedies == {
        "list nodes, needed to count GPUs": restored,
        "patch apps/deployments/scale, needed to change replica counts": restored,
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: c.forbidden.add(f"GET {CONFIG_MAPS}"), "403 Forbidden"),
        (lambda c: c.objects.update(releases(one="", two="")), f"several releases in {OWN} have some: one, two"),
        (lambda c: c.objects.update(releases(one="from_2030: 1")), f"ConfigMap {OWN}/one: from_2030: unknown field"),
    ],
    ids=["they may not be read", "two releases have some", "they are of a newer version"],
)
def test_where_the_settings_cannot_be_told_that_is_said_with_how_to_give_them(
    cluster: Plane, tmp_path: Path, change: Callable[[Plane], Any], why: str
) -> None:
    change(cluster)
    _, found = examined(cluster)
    (doubt,) = [row for row in found if row["check"] == "settings"]
    assert doubt["state"] == "warn"
    assert why in doubt["words"]
    assert (
        f"kubectl -n {OWN} get configmap NAME -o jsonpath='{{.data.settings\\.yaml}}' > settings.yaml"
        in doubt["remedy"]
    )
    given = tmp_path / "settings.yaml"
    given.write_text("{}")
    _, found = examined(cluster, "--config", str(given))
    assert "settings" not in [row["check"] for row in found], "whoever gives them is not asked about them"


LEASES = "/apis/coordination.k8s.io/v1/leases"


def led(namespace: str, name: str = "headroom", *, holder: str | None = "pod_1", ago_s: float = 2.0) -> dict[str, Any]:
    """A Lease as another one of Headroom keeps it."""
    renewed = datetime.fromtimestamp(time.time() - ago_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    made = lease(holder, renewed)
    return made | {"metadata": made["metadata"] | {"namespace": namespace, "name": name}}


def test_another_installation_that_watches_the_same_is_named_and_one_that_is_apart_or_gone_is_not(
    cluster: Plane, tmp_path: Path
) -> None:
    """Two of them take each other's patches for edits, and neither knows: seen on a real API server."""
    others = [led(OWN), led("team-a"), led("team-b"), led("gone", ago_s=3600.0), led("ended", holder=None)]
    foreign = led("kube-system", "kube-scheduler")
    foreign["metadata"]["annotations"] = {}
    cluster.objects[LEASES] = {"items": [*others, foreign]}
    for team in ("team-a", "team-b"):
        one = {"metadata": {"name": "headroom"}, "data": {"settings.yaml": f"watch_namespaces: [{team}]"}}
        cluster.objects[f"/api/v1/namespaces/{team}/configmaps"] = {"items": [one]}
    own = tmp_path / "settings.yaml"
    own.write_text("watch_namespaces: [team-a, prod]")
    code, found = examined(cluster, "--config", str(own))
    told = [row["words"] for row in found if row["check"] == "installations"]
    assert (code, told) == (
        0, ["another one of Headroom leads in team-a (lease headroom) and watches team-a, as this one does"]
    )  # fmt: skip
    _, everywhere = examined(cluster)
    assert len([row for row in everywhere if row["check"] == "installations"]) == 2
    del cluster.objects["/api/v1/namespaces/team-b/configmaps"]
    _, unknown = examined(cluster, "--config", str(own))
    assert [row["words"] for row in unknown if row["check"] == "installations"][1].endswith("cannot be told")


FAULTS: dict[str, tuple[Callable[[Plane], Any], int, str, str]] = {
    "a clock that is ahead": (
        lambda c: setattr(c, "date_s", lambda: time.time() - 90), 0, "clock", "ahead of the server's",
    ),
    "a clock that is behind": (
        lambda c: setattr(c, "date_s", lambda: time.time() + 600), 0, "clock", "behind the server's",
    ),
    "no custom resource": (
        lambda c: c.objects.pop("/apis/headroom.dev/v1alpha1"), 0, "ScalingPolicy", "the custom resource is not insta",
    ),
    "a version before queues": (
        lambda c: c.objects.update({"/apis/headroom.dev/v1alpha1": resources("scalingpolicies", "warmpools")}), 0,
        "BatchQueue", "is served without it: the definitions are of an older version",
    ),
    "a custom resource of an older version": (
        lambda c: c.objects.update(installed(lambda spec: spec["properties"].pop("maxReplicas"))), 0, "ScalingPolicy",
        "scalingpolicies.headroom.dev is older than this version: it drops spec.maxReplicas",
    ),
    "a custom resource of a newer version": (
        lambda c: c.objects.update(installed(lambda spec: spec["properties"].update(sloP99={"type": "number"}))), 0,
        "ScalingPolicy", "is newer than this version, which ignores spec.sloP99",
    ),
    "a custom resource of versions to come": (
        lambda c: c.objects.update(installed(lambda spec: spec["properties"].clear())), 0, "ScalingPolicy", " more",
    ),
    "a kind without /scale": (
        lambda c: c.objects.update({"/apis/apps/v1": resources("deployments")}), 1, "Deployment", "serves no /scale",
    ),
    "one verb missing": (
        lambda c: c.denied.add("patch deployments/scale"), 1, "rights",
        "may not patch apps/deployments/scale, needed to change replica counts",
    ),
    "no right to scale": (
        lambda c: c.denied.update(f"{verb} {kind}/scale" for verb in ("get", "patch") for kind in (
            "deployments", "statefulsets", "leaderworkersets")), 0, "rights",
        "may change no replica counts: whatever is Active will be refused",
    ),
    "no right to ask about others": (
        lambda c: c.forbidden.add("POST /apis/authorization.k8s.io/v1/subjectaccessreviews"), 0, "rights",
        "your own rights are looked at instead",
    ),
    "no lease": (lambda c: c.objects.pop(LEASE), 1, "lease", "headroom-system/headroom does not exist"),
    "an unheld lease": (
        lambda c: c.objects.update({LEASE: lease(None)}), 1, "lease", "headroom-system/headroom is held by nobody",
    ),
    "a lease that nobody renews": (
        lambda c: c.objects.update({LEASE: lease(renewed="2025-11-27T10:00:00.000000Z")}), 1, "lease",
        "but it was renewed",
    ),
    "a lease that was never renewed": (
        lambda c: c.objects.update({LEASE: lease()}), 1, "lease", "but it was never renewed: no replica acts",
    ),
    "a lease that may not be read": (lambda c: c.forbidden.add(f"GET {LEASE}"), 1, "lease", "403 Forbidden"),
    "a freeze": (
        lambda c: c.objects.update({FREEZE: {"data": {"freeze": "incident 7"}}}), 0, "freeze",
        "everything is frozen: incident 7",
    ),
    "a leader that does not answer": (
        lambda c: c.forbidden.add(f"GET /api/v1/namespaces/{OWN}/pods/{POD}"), 1, "controller", "could not be asked",
    ),
    "a controller that is not ready": (
        lambda c: setattr(c.controller, "not_ready", ("pods was not heard for 130 s",)), 1, "controller",
        "headroom-0_1 is not ready: pods was not heard for 130 s",
    ),
    "nothing to scale": (lambda c: setattr(c.controller, "workloads", {}), 0, "workloads", "nobody asks to be scaled"),
    "a policy that cannot be read": (
        lambda c: setattr(c.controller, "rejected", (Rejected("prod", "ScalingPolicy", "x", "Invalid", "spec: bad"),)),
        1, "prod/x", "ScalingPolicy is not served: spec: bad",
    ),
    "a crowd that is not taken up": (
        lambda c: setattr(c.controller, "rejected", tuple(
            Rejected("prod", "Deployment", name, "TooManyWorkloads", "not taken up") for name in ("x", "y", "z")
        )), 1, "prod/", "Deployment x and 2 more: not taken up",
    ),
    "more in vain than are told one by one": (
        lambda c: setattr(c.controller, "rejected", tuple(
            Rejected("prod", "ScalingPolicy", f"x{n}", "Invalid", "spec: bad") for n in range(120)
        )), 1, "workloads", "20 more objects ask to be scaled in vain",
    ),
    "a workload never decided on": (
        lambda c: setattr(c.controller, "workloads", {"prod/new": CHAT}), 1, "prod/new", "not decided on yet",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "code", "check", "words"), FAULTS.values(), ids=FAULTS)
def test_each_fault_is_a_row_with_a_remedy(
    cluster: Plane, spoil: Callable[[Plane], Any], code: int, check: str, words: str
) -> None:
    spoil(cluster)
    exit_code, found = examined(cluster)
    assert exit_code == code
    bad = [row for row in found if row["state"] != "ok" and row["check"] == check]
    assert any(words in row["words"] for row in bad), found
    assert all(row["remedy"] for row in bad)
    assert any(row["state"] == ("fail" if code else "warn") for row in bad)


def test_warm_pools_that_this_version_and_these_settings_could_not_use_are_named_before_an_upgrade(
    cluster: Plane, tmp_path: Path
) -> None:
    path, pools = tmp_path / "settings.yaml", "/apis/headroom.dev/v1alpha1/warmpools"
    given = "shapes: {h100: {sku: h100}}\nwarm_pools: {enabled: true, registries: [registry.example.com]"
    path.write_text(f"{given}}}\n")
    tier = {"name": "first", "shape": "h100", "nodePoolRef": "gpu"}
    model = {"name": "chat", "image": "registry.example.com/vllm:v1", "weights": "hf://example/chat"}
    spec = {"tiers": [tier], "slot": {"count": 1}, "models": [model], "maxSlots": 2}

    def found(**caches: str) -> list[dict[str, Any]]:
        cluster.objects[pools] = {
            "items": [
                {"metadata": {"name": name, "uid": name}, "spec": spec | {"cache": {"hostPath": cache}}}
                for name, cache in caches.items()
            ]
        }
        code, told = examined(cluster, "--config", str(path))
        mine = [row for row in told if row["check"].startswith("WarmPool")]
        assert code == any(row["state"] == "fail" for row in told)
        return mine

    ((check, words),) = rows(found(code="/mnt/nvme/cache", chat="/var/lib/headroom/cache"), "fail")
    assert check == "WarmPool code"
    assert words == (
        "cannot be used: spec.cache.hostPath: '/mnt/nvme/cache' is not directly below a folder that caches may be in "
        "(/var/lib/headroom); name a folder there, or ask for '/mnt/nvme' to be added to the setting "
        "warm_pools.cache_roots"
    )
    path.write_text(f"{given}, cache_roots: [/var/lib/headroom, /mnt/nvme]}}\n")
    (well,) = found(code="/mnt/nvme/cache", chat="/var/lib/headroom/cache")
    assert (well["state"], well["words"]) == ("ok", "all 2 can be used")
    assert [row["check"] for row in examined(cluster)[1] if row["check"].startswith("WarmPool")] == [], "they are off"


def test_the_controller_is_asked_where_a_person_has_forwarded_its_port(cluster: Plane) -> None:
    _, found = examined(cluster, "--server", "http://127.0.0.1:1")
    assert [row["check"] for row in found if row["state"] == "fail"] == ["controller"]
    assert "http://127.0.0.1:1/api/status" in found[-1]["words"]


def test_when_the_api_server_cannot_be_reached_that_is_the_only_row(cluster: Plane) -> None:
    cluster.kubeconfig.write_text(json.dumps(config("http://127.0.0.1:1")))
    code, found = examined(cluster)
    assert (code, [row["check"] for row in found], found[0]["state"]) == (1, ["API server"], "fail")


@pytest.mark.parametrize(
    ("options", "kind", "user"),
    [
        ([], "SubjectAccessReview", f"system:serviceaccount:{OWN}:headroom"),
        (["--service-account", "other"], "SubjectAccessReview", f"system:serviceaccount:{OWN}:other"),
        (["--own-rights"], "SelfSubjectAccessReview", None),
    ],
)
def test_the_rights_are_those_of_the_controllers_account_unless_others_are_asked_for(
    cluster: Plane, options: list[str], kind: str, user: str | None
) -> None:
    examined(cluster, *options)
    assert {review["kind"] for review in cluster.reviews} == {kind}
    assert {review["spec"].get("user") for review in cluster.reviews} == {user}


TOLERANT = HpaPreview(
    "h", 21, 20, 20, None, ("TOLERANCE",), "HPA h: …", ("HPA's tolerance of 10 % …",), '{"scaleUp":{}}'
)


WELL = WorkloadStatus("prod/chat", CHAT, age_s=2.0, has=4, getting=0, overload="fits")


SILENT = Problem("chat-0: timeout: no answer", "see its log")


BLIND = (SignalFrame("queue", "unknown", 90.0, blocking=True),)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (WELL, [("ok", "mode Active, fits")]),
        (replace(WELL, overload="unknown"), [("ok", "mode Active, learning")]),
        (replace(WELL, about=replace(CHAT, found=("a", "b"))), [("ok", "2 metrics found, mode Active, fits")]),
        (replace(WELL, signals=BLIND), [("fail", "there are no metrics: replicas stay as they are")]),
        (
            replace(
                WELL,
                signals=BLIND,
                about=replace(CHAT, problems=(SILENT,)),
            ),
            [("fail", "chat-0: timeout: no answer")],
        ),
        (
            replace(WELL, about=replace(CHAT, problems=(SILENT,))),
            [("warn", "chat-0: timeout: no answer")],
        ),
        (
            replace(WELL, about=replace(CHAT, engine="vllm", missing=("vllm:num_requests_waiting",))),
            [("warn", "the pages of engine 'vllm' lack vllm:num_requests_waiting")],
        ),
        (
            replace(WELL, about=replace(CHAT, obstacle="HPA chat scales it", remarks=("a VPA is there",))),
            [("warn", "HPA chat scales it"), ("warn", "a VPA is there")],
        ),
        (replace(WELL, about=replace(CHAT, hpa=TOLERANT)), [("warn", "HPA's tolerance of 10 % …")]),
        (replace(WELL, about=replace(CHAT, hpa=replace(TOLERANT, remarks=()))), [("ok", "mode Active, fits")]),
    ],
    ids=[
        "well",
        "learning",
        "well with names",
        "blind",
        "no page",
        "one page",
        "names missing",
        "aliens",
        "hpa",
        "good hpa",
    ],
)
def test_what_is_wrong_with_a_workload_is_told(row: WorkloadStatus, told: list[tuple[str, str]]) -> None:
    assert [(finding.state.value, finding.words) for finding in of_workload(row)] == told


def test_what_cannot_be_read_is_told_with_its_own_remedy() -> None:
    (finding,) = of_workload(replace(WELL, about=replace(CHAT, problems=(SILENT,))))
    assert finding.remedy == "see its log"


def test_the_remedy_for_an_hpa_that_swallows_is_the_behavior_to_write() -> None:
    (finding,) = of_workload(replace(WELL, about=replace(CHAT, hpa=TOLERANT)))
    assert finding.remedy == f"in the ScaledObject's {WHERE}: {TOLERANT.behavior}"


def test_the_text_has_the_remedy_below_what_is_wrong_and_counts_at_the_end(cluster: Plane) -> None:
    cluster.controller.process = FOLLOWING
    cluster.controller.workloads = {"prod/chat": About("Deployment", "annotation", obstacle="HPA chat scales it")}
    result = run(app, ["doctor", *cluster.options()])
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].startswith("ok    API server")
    at = next(number for number, line in enumerate(lines) if "HPA chat scales it" in line)
    assert lines[at].startswith("warn  prod/chat")
    assert lines[at + 1].strip() == "→ mend that, or pause Headroom on this workload"
    assert lines[-1] == "10 ok, 1 warn, 0 fail"
