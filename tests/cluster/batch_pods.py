"""Pods behind our gate on a real control plane, one by one and in groups, and where the real scheduler bound them."""

from collections.abc import Mapping
from typing import Any, Final

from tests.cluster.batch_work import CLASS, GPU, MERGE, Desk
from tests.cluster.conftest import CONFIG
from tests.cluster.controller import ACCOUNT
from tests.cluster.plane import Plane, RefusedError
from tests.cluster.processes import wait_for

GATE: Final = "headroom.dev/admission"
ROOT: Final = "/apis/admissionregistration.k8s.io/v1"


def opt_in(plane: Plane, namespace: str) -> None:
    """Let Headroom let pods of a namespace in, as an administrator does."""
    plane.kubectl("apply", "--server-side", "-n", namespace, "-f", CONFIG / "rbac" / "pods")


class Pods:
    """Pods of a desk's namespace, without a Job above them."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._plane = desk, desk.plane
        self._root = f"/api/v1/namespaces/{desk.namespace}/pods"

    def make(
        self, name: str, queue: str, *, group: str = "", size: int = 0, gpus: int = 8,
        labels: Mapping[str, str] | None = None, gates: tuple[str, ...] = (GATE,), **spec: Any,
    ) -> None:  # fmt: skip
        """A pod in a queue, behind our gate."""
        mine = ({"headroom.dev/queue": queue} if queue else {}) | ({"headroom.dev/pod-group": group} if group else {})
        self._plane.call("POST", self._root, {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "labels": mine | dict(labels or {}),
                "annotations": {"headroom.dev/pod-group-size": str(size)} if group else {},
            },
            "spec": {
                "schedulingGates": [{"name": gate} for gate in gates], "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0, "priorityClassName": CLASS,
                "containers": [{"name": "train", "image": "train:v1", "resources": {"limits": {GPU: str(gpus)}}}],
                **spec,
            },
        })  # fmt: skip

    def group(self, name: str, queue: str, pods: int, size: int = 0, gpus: int = 8) -> None:
        """So many pods NAME-0, NAME-1, … of a group."""
        for at in range(pods):
            self.make(f"{name}-{at}", queue, group=name, size=size or pods, gpus=gpus)

    def read(self, name: str) -> dict[str, Any]:
        """A pod as it is now."""
        found: dict[str, Any] = self._plane.call("GET", f"{self._root}/{name}")
        return found

    def gates(self, name: str) -> list[str]:
        """The gates that a pod is behind."""
        return [each["name"] for each in self.read(name)["spec"].get("schedulingGates", ())]

    def nodes(self, group: str) -> dict[str, str]:
        """The bound pods of a group with their nodes."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self._desk.pods()
            if pod["metadata"].get("labels", {}).get("headroom.dev/pod-group") == group and pod["spec"].get("nodeName")
        }

    def wait_bound(self, group: str, pods: int, seconds: float = 60.0) -> dict[str, str]:
        """The nodes of a group once so many of its pods are bound."""
        wait_for(lambda: len(self.nodes(group)) == pods, seconds, f"{pods} bound pods of {group}")
        return self.nodes(group)

    def end(self, *names: str) -> None:
        """Let pods end well."""
        for name in names:
            self._plane.call("PATCH", f"{self._root}/{name}/status", {"status": {"phase": "Succeeded"}}, MERGE)

    def delete(self, *names: str) -> None:
        """Delete pods at once."""
        self._plane.kubectl("delete", "pod", *names, "-n", self._desk.namespace, "--grace-period=0", "--force")

    def writes(self, name: str) -> int:
        """How often we patched a pod, tries aside, by the audit log."""
        entries = self._plane.audited(verb="patch", resource="pods", user=ACCOUNT)
        return sum(
            entry["objectRef"].get("namespace") == self._desk.namespace and entry["objectRef"].get("name") == name
            and entry["responseStatus"]["code"] == 200 and "dryRun" not in entry["requestURI"]
            for entry in entries
        )  # fmt: skip

    def refuse(self, name: str, expression: str) -> None:
        """Have the API server refuse every change of a pod of this namespace for which the expression is false."""
        policy = f"{name}-{self._desk.namespace}"
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._desk.namespace}}}
        rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}]
        self._plane.apply({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": policy}, "spec": {
                "matchConstraints": {"resourceRules": rules, **here},
                "validations": [
                    {"expression": f"!('probe' in object.metadata.?annotations.orValue({{}})) && ({expression})",
                     "message": "not while the budget is frozen"},
                ],
            },
        })  # fmt: skip
        self._plane.apply({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": policy}, "spec": {"policyName": policy, "validationActions": ["Deny"]},
        })  # fmt: skip
        wait_for(self._refuses, 60.0, "the policy to be in force")

    def _refuses(self) -> bool:
        """Whether the API server goes by the policy: it refuses a change that only the policy forbids."""
        name = self._desk.pods()[0]["metadata"]["name"]
        try:
            self._plane.call("PATCH", f"{self._root}/{name}?dryRun=All", {"metadata": {"annotations": {"probe": "x"}}},
                             MERGE)  # fmt: skip
        except RefusedError:
            return True
        return False

    def allow(self, name: str) -> None:
        """Refuse no more."""
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            self._plane.call("DELETE", f"{ROOT}/{plural}/{name}-{self._desk.namespace}")
