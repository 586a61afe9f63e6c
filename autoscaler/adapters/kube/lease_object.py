"""One Lease on the API server: looked at, made, and written only where it still is as it was read.

Needs the verbs get and patch on that name, and create (which RBAC cannot bind to a name) where nobody else makes it.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.objects import Lease
from autoscaler.adapters.kube.writing import MERGE_PATCH, Requests, decoded, rfc3339
from autoscaler.ports import Fault

ADDRESS: Final = "headroom.dev/address"
"""The annotation that says where the holder answers."""

Fields = dict[str, str | int | None]
"""Fields of a spec; None removes one."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lead, by its own account: `since_s` in seconds since 1970 on its wall clock."""

    identity: str
    address: str
    since_s: float | None


_lease = msgspec.json.Decoder(Lease)


class LeaseObject:
    """The Lease of one election. Every method raises KubeError, also where the answer is not a Lease."""

    def __init__(self, api: Requests, namespace: str, name: str) -> None:
        self._api = api
        self._name = name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"

    async def look(self, timeout_s: float) -> Lease | None:
        """The Lease; None where there is none."""
        try:
            return await self._ask("GET", self._path, None, "application/json", timeout_s)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def make(self, spec: Fields, address: str | None, timeout_s: float) -> Lease:
        """Make the Lease; status 409 where there is one."""
        content = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "annotations": {ADDRESS: address} if address else {}},
            "spec": spec,
        }
        return await self._ask("POST", self._collection, content, "application/json", timeout_s)

    async def write(self, version: str, spec: Fields, address: str | None, timeout_s: float) -> Lease:
        """Merge the fields into the Lease if it still has `version`, else status 409; what others keep in it stays."""
        content = {"metadata": {"resourceVersion": version, "annotations": {ADDRESS: address}}, "spec": spec}
        return await self._ask("PATCH", self._path, content, MERGE_PATCH, timeout_s)

    async def _ask(
        self, method: str, path: str, content: dict[str, Any] | None, content_type: str, timeout_s: float
    ) -> Lease:
        body = None if content is None else msgspec.json.encode(content)
        answer = await self._api.request(method, path, body=body, content_type=content_type, timeout_s=timeout_s)
        lease = decoded(_lease, answer, f"{method} {path}")
        if not lease.metadata.resource_version:
            raise KubeError(Fault.INVALID, f"{method} {path}: {answer.status}, but without a resourceVersion no Lease")
        return lease


def holder_of(lease: Lease) -> Holder | None:
    """Who holds the Lease; None when nobody does."""
    spec = lease.spec
    if not spec.holder_identity:
        return None
    since_s = None if spec.acquire_time is None else spec.acquire_time.timestamp()
    return Holder(spec.holder_identity, lease.metadata.annotations.get(ADDRESS, ""), since_s)


def held(identity: str, lease_s: float, *, since_s: float, now_s: float, term: int | None) -> Fields:
    """The spec of a Lease that `identity` holds since `since_s` and renews now."""
    times: Fields = {"acquireTime": rfc3339(since_s, "microseconds"), **vacant(lease_s, now_s)}
    return {"holderIdentity": identity, **times, "leaseTransitions": term}


def vacant(lease_s: float, now_s: float) -> Fields:
    """The spec of a Lease that nobody holds and that must be waited for."""
    return {"leaseDurationSeconds": math.ceil(lease_s), "renewTime": rfc3339(now_s, "microseconds")}
