"""What the API server says of itself: which resources it serves, and who may do what.

Enters: a client. Leaves: names, and a truth per right. Access reviews are questions: the API server keeps none of them.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.cli.rights import Right
from autoscaler.errors import HeadroomError, sole

REVIEWS: Final = "/apis/authorization.k8s.io/v1"


async def served(api: KubeApi, root: str) -> frozenset[str]:
    """The resources of a group and version, subresources among them; none where it is not served."""
    try:
        listed = decoded(await api.request("GET", root)).get("resources", ())
    except KubeError as error:
        if error.status == 404:
            return frozenset()
        raise
    return frozenset(str(one.get("name")) for one in listed)


async def reviewed(api: KubeApi, needed: Iterable[Right], user: str | None) -> list[bool]:
    """Whether each right is there, for `user` or for whoever asks. Raises KubeError."""
    results: dict[int, bool] = {}

    async def one(place: int, right: Right) -> None:
        results[place] = await _may(api, right, user)

    try:
        async with asyncio.TaskGroup() as group:
            for place, right in enumerate(needed):
                group.create_task(one(place, right), name=f"review {right.words}")
    except BaseExceptionGroup as group:
        error = sole(group, KubeError)
        if error is None:
            raise
        raise error from None
    return [results[place] for place in sorted(results)]


async def _may(api: KubeApi, right: Right, user: str | None) -> bool:
    resource, _, subresource = right.resource.partition("/")
    asked = {
        "group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb,
        "namespace": right.namespace or "", "name": right.name or "",
    }  # fmt: skip
    spec: dict[str, Any] = {"resourceAttributes": asked}
    name = "SelfSubjectAccessReview"
    if user is not None:
        name = "SubjectAccessReview"
        spec |= {"user": user, "groups": ["system:serviceaccounts", "system:authenticated"]}
    body = msgspec.json.encode({"apiVersion": "authorization.k8s.io/v1", "kind": name, "spec": spec})
    answer = await api.request("POST", f"{REVIEWS}/{name.lower()}s", body=body, timeout_s=30.0)
    return bool((decoded(answer).get("status") or {}).get("allowed"))


def decoded(answer: Answer) -> dict[str, Any]:
    """The JSON object in an answer. Raises HeadroomError where there is none."""
    try:
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise HeadroomError(f"the API server's answer is no JSON object: {error}") from error
