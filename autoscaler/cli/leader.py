"""Questions to the controller that leads, from wherever a person sits.

Enters: a path. Leaves: the answer's bytes, or an error that says where it went wrong and what to do. With a URL it is
asked straight; without one the lease names the pod and the API server's proxy passes the question on, which needs the
rights to get that lease and `pods/proxy`. Nothing of Kubernetes is imported for a URL.

Where the controller asks who asks, ``HEADROOM_TOKEN`` is shown. Without it, and through the proxy, a token is made for
the ServiceAccount of the installation's readers: it holds ten minutes and may do nothing but read Headroom. The token
of whoever sits here is never shown, because the proxy checks no pod's certificate.
"""

import asyncio
import http.client
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlencode, urlsplit

import typer

from autoscaler.errors import HeadroomError, InputError

if TYPE_CHECKING:
    from autoscaler.adapters.kube.api import KubeApi
    from autoscaler.settings.model import Settings

TIMEOUT_S: Final = 15.0
MOST_BYTES: Final = 64 * 2**20

READER_S: Final = 600
"""How long a token holds that is made for one question; the API server makes none for less."""

SHOWN_VARIABLE: Final = "HEADROOM_TOKEN"
CA_VARIABLE: Final = "HEADROOM_CA_FILE"
"""Variables: a token that is shown, and the authority of the controller's certificate where --server is https."""

Query = Sequence[tuple[str, str]]


def _option(name: str, help_text: str, metavar: str | None = None, envvar: str | None = None) -> Any:
    return typer.Option(name, help=help_text, metavar=metavar, envvar=envvar)


Server = Annotated[
    str | None,
    _option("--server", "The controller's URL; left out, the leader is asked through the cluster.", "URL",
            "HEADROOM_SERVER"),
]  # fmt: skip
Config = Annotated[
    Path | None, _option("--config", "The installation's settings, where they are not the usual.", "FILE")
]
Kubeconfig = Annotated[Path | None, _option("--kubeconfig", "A kubeconfig; left out, kubectl's own.", "FILE")]
Context = Annotated[str | None, _option("--context", "A context of the kubeconfig that is given.", "NAME")]
Namespace = Annotated[str | None, _option("--namespace", "Headroom's own namespace.", "NAME")]
AsJson = Annotated[bool, _option("--json", "Print JSON in place of text.")]


class AskError(HeadroomError):
    """A question that was not answered; `status` is the HTTP status, None without an answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Reach:
    """How the controller, or its cluster, is reached."""

    server: str | None = None
    config: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    def settings(self, text: tuple[str, bytes] | None = None) -> "Settings":
        """The installation's settings as this person sees them, where no file is given those of `text` (what it is
        called, and YAML). Raises InputError."""
        from autoscaler.settings.load import load_settings

        kube = {"kubeconfig": self.kubeconfig, "context": self.context}
        flags: dict[str, Any] = {"kube": {name: value for name, value in kube.items() if value is not None}}
        if self.namespace is not None:
            flags["namespace"] = self.namespace
        return load_settings(config=self.config, flags=flags, text=text)


def ask(reach: Reach, path: str, query: Query = ()) -> bytes:
    """What the leader answers. Raises AskError in words that say what to do, InputError for a URL that is none."""
    if reach.server is not None:
        return _ask_url(reach.server, path, query)
    return asyncio.run(_ask_through(reach.settings(), path, query))


@asynccontextmanager
async def cluster(settings: "Settings") -> "AsyncIterator[KubeApi]":
    """A client for the cluster that the settings, or kubectl's own places, name. Raises InputError."""
    from autoscaler.adapters.kube.api import KubeApi
    from autoscaler.runtime.clock import WallClock

    kube = settings.kube
    async with KubeApi.connect(
        kubeconfig=kube.kubeconfig, context=kube.context, clock=WallClock(), qps=kube.qps, burst=kube.burst,
        comes_again=True,
    ) as api:  # fmt: skip
        yield api


async def ask_pod(api: "KubeApi", settings: "Settings", path: str, query: Query = ()) -> bytes:
    """What the holder of the lease answers, through the API server's proxy. Raises AskError."""
    from autoscaler.adapters.web.hosts import INTRODUCTION

    where = await _leader(api, settings)
    given = _introduced()
    try:
        return await _ask_once(api, settings, where, (path, query), given)
    except AskError as error:
        if error.status != 401 or given:
            raise
        made = await _reader(api, settings, error)
    return await _ask_once(api, settings, where, (path, query), {INTRODUCTION: made})


async def _ask_once(
    api: "KubeApi", settings: "Settings", where: "_Leader", asked: tuple[str, Query], shown: Mapping[str, str]
) -> bytes:
    from autoscaler.adapters.kube.answers import KubeError
    from autoscaler.adapters.web.hosts import NO_PAGE

    pod, port, (path, query) = where.pod, where.port, asked
    proxied = f"/api/v1/namespaces/{settings.namespace}/pods/{where.scheme}{pod}:{port}/proxy{path}"
    try:
        answer = await api.request("GET", proxied, query=query, timeout_s=TIMEOUT_S, headers={**NO_PAGE, **shown})
    except KubeError as error:
        words = _said(str(error))
        if words is not None:
            raise AskError(words, error.status) from error
        rights = " Asking needs the right to get pods/proxy there." if error.status == 403 else ""
        forwarded = f"{'https' if where.scheme else 'http'}://localhost:{port}"
        raise AskError(
            f"pod {settings.namespace}/{pod} could not be asked: {error}.{rights} Or: kubectl -n {settings.namespace} "
            f"port-forward {pod} {port}, then --server {forwarded}",
            None if error.status == 401 else error.status,
        ) from error
    return answer.body


async def _reader(api: "KubeApi", settings: "Settings", refused: AskError) -> str:
    """A token of the readers' ServiceAccount. Raises AskError."""
    from autoscaler.adapters.kube.answers import KubeError
    from autoscaler.cli.reviews import decoded

    account = f"/api/v1/namespaces/{settings.namespace}/serviceaccounts/{settings.http.reader}"
    body = b'{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": %d}}'
    try:
        answer = await api.request("POST", f"{account}/token", body=body % READER_S, timeout_s=TIMEOUT_S)
    except KubeError as error:
        raise AskError(f"{refused} (one could not be made here: {error})", refused.status) from error
    token = (decoded(answer).get("status") or {}).get("token")
    if not isinstance(token, str):
        raise AskError(f"{refused} (one could not be made here: the answer of {account} holds none)", refused.status)
    return token


def _introduced() -> dict[str, str]:
    """The header that says who asks, where the environment holds a token."""
    from autoscaler.adapters.web.hosts import INTRODUCTION

    token = os.environ.get(SHOWN_VARIABLE, "").strip()
    return {INTRODUCTION: token} if token else {}


async def _ask_through(settings: "Settings", path: str, query: Query) -> bytes:
    async with cluster(settings) as api:
        return await ask_pod(api, settings, path, query)


@dataclass(frozen=True, slots=True)
class _Leader:
    """The pod that leads, and the port it answers on; `scheme` as the proxy wants it before a pod's name."""

    pod: str
    port: int
    scheme: str


async def _leader(api: "KubeApi", settings: "Settings") -> _Leader:
    """Who leads. Raises AskError."""
    from autoscaler.adapters.kube.answers import KubeError
    from autoscaler.adapters.kube.lease_object import ADDRESS, LeaseObject
    from autoscaler.adapters.web.peer import SECURE

    where = f"lease {settings.namespace}/{settings.lease.name}"
    try:
        lease = await LeaseObject(api, settings.namespace, settings.lease.name).look(TIMEOUT_S)
    except KubeError as error:
        unreached = "; is it the right cluster (--kubeconfig, --context), and can this machine reach it?"
        raise AskError(
            f"{where} could not be read: {error}{unreached if error.status is None else ''}", error.status
        ) from error
    if lease is None:
        raise AskError(f"{where} does not exist: is Headroom installed there? Give --namespace, or --server URL")
    pod = (lease.spec.holder_identity or "").rpartition("_")[0]
    address = lease.metadata.annotations.get(ADDRESS, "")
    port = address.rpartition(":")[2]
    if not pod or not port.isdecimal():
        raise AskError(f"{where} is held by nobody: no replica leads now; look at the pods of {settings.namespace}")
    return _Leader(pod, int(port), "https:" if address.startswith(SECURE) else "")


def _ask_url(server: str, path: str, query: Query) -> bytes:
    from autoscaler.adapters.web.hosts import NO_PAGE

    parts = urlsplit(server)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise InputError(f"--server {server!r}: no URL; give one such as http://localhost:8080")
    url = f"{server.rstrip('/')}{path}{f'?{urlencode(query)}' if query else ''}"
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), _NoRedirect(), urllib.request.HTTPSHandler(context=_trust())
    )
    opener.addheaders = list({**NO_PAGE, **(_introduced() if parts.scheme == "https" else {})}.items())
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            body = bytes(answer.read(MOST_BYTES + 1))
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(10_000).decode(errors="replace")
        said = "and a page of HTML" if text.lstrip().startswith("<") else repr(text[:200])
        words = f"{url}: {error.code} {error.reason} {said}; is it the controller that answers there?"
        raise AskError(_said(text) or words, error.code) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError):
            words = (
                f"its certificate is not trusted: {reason.verify_message}; name its authority's file in {CA_VARIABLE}"
            )
            raise AskError(f"{url}: {words}") from error
        raise AskError(f"{url}: {reason}; is the controller there, and the port forwarded?") from error
    if len(body) > MOST_BYTES:
        raise AskError(f"{url}: more than {MOST_BYTES} bytes; that is no answer of a controller")
    return body


def _trust() -> ssl.SSLContext:
    """What certificates of the controller are checked by. Raises InputError."""
    file = os.environ.get(CA_VARIABLE) or None
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        raise InputError(
            f"{CA_VARIABLE}: {file}: {error.strerror or error}; give a file of certificates in PEM"
        ) from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow nothing: the controller never redirects."""


def _said(text: str) -> str | None:
    """The controller's own words in an answer, or in a message that repeats one; None where it is not from it."""
    found = re.search(r'\{"error":"((?:[^"\\]|\\.)*)"', text)
    return None if found is None else re.sub(r"\\(.)", r"\1", found[1])
