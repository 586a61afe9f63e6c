"""Whose a token is, and whether that account may get a path: two questions to the API server, which keeps neither.

Needs the verb create on `tokenreviews` and `subjectaccessreviews`. It keeps nothing itself.
"""

from typing import Any, Final, TypeVar

import msgspec

from autoscaler.adapters.kube.writing import Requests, decoded

TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TIMEOUT_S: Final = 5.0

T = TypeVar("T")


class User(msgspec.Struct, frozen=True):
    """Whose a token is."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_token_review = msgspec.json.Decoder(_TokenReview)
_access_review = msgspec.json.Decoder(_AccessReview)


class AccessReviews:
    """Asks the API server who somebody is, and what that account may."""

    def __init__(self, api: Requests) -> None:
        self._api = api

    async def whose(self, token: str) -> User | None:
        """Whose a token is; None where it is nobody's of this cluster. Raises KubeError."""
        status = (await self._ask(_token_review, TOKENS, "TokenReview", {"token": token})).status
        return status.user if status.authenticated and status.user.username else None

    async def may_get(self, user: User, path: str) -> bool:
        """Whether it may `get` a path that is no resource of the API server's. Raises KubeError."""
        asked = {
            "user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }  # fmt: skip
        status = (await self._ask(_access_review, ACCESS, "SubjectAccessReview", asked)).status
        return status.allowed and not status.denied

    async def _ask(self, decoder: msgspec.json.Decoder[T], path: str, kind: str, spec: dict[str, Any]) -> T:
        group = path.removeprefix("/apis/").rpartition("/")[0]
        body = msgspec.json.encode({"apiVersion": group, "kind": kind, "spec": spec})
        answer = await self._api.request("POST", path, body=body, timeout_s=TIMEOUT_S)
        return decoded(decoder, answer, f"POST {path}")
