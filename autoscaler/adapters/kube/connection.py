"""Where the API server is and how to be let in: the only user of kubernetes-asyncio.

Enters: a kubeconfig, or the service account of the pod. Leaves: an `Access` with the server's address and TLS, and
`Credentials` whose header follows tokens as they rotate. kubernetes-asyncio reads the files and runs exec plugins; its
sessions, models and watches are not used. An authority that takes the place of another in the file of the CA is trusted
as well, a minute later at most; the one before it is until the process ends. Client certificates are read once.
"""

import asyncio
import os.path
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from autoscaler import __version__
from autoscaler.adapters.kube.meta import AGENT
from autoscaler.errors import InputError
from autoscaler.ports import Clock

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

REFRESH_S: Final = 60.0
"""Between two looks at the token; the kubelet replaces it long before the old one expires."""

REFUSED_S: Final = 5.0
"""Between two looks after a 401 or a failed look: an exec plugin is a process, not to be started for every request."""

GONE_AFTER_S: Final = 30
"""A server that the network no longer reaches breaks its connections after so long, by probes of the kernel: a node
lost or a route cut is then known long before a watch that stays silent is. A server that only hangs answers them."""

_PROBING: Final = {"TCP_KEEPIDLE": GONE_AFTER_S // 2, "TCP_KEEPINTVL": GONE_AFTER_S // 6, "TCP_KEEPCNT": 3}
"""The first probe after half of that time, then three; not every system on which people ask can set all of them."""

LOOK_S: Final = 5.0
"""A look that takes longer is given up; the old token stays in use."""

_UNREADABLE: Final = (OSError, ValueError, TypeError, LookupError, AttributeError, AssertionError, RuntimeError)
"""What kubernetes-asyncio throws at files that are not what it expects, besides its own and YAML's errors."""


@dataclass(frozen=True, slots=True)
class Access:
    """One API server. `header` is the ``Authorization`` to send, which `reread` reads anew; None sends none."""

    server: str
    header: str | None
    reread: Callable[[], Awaitable[str | None]]
    tls: ssl.SSLContext | bool = True
    tls_name: str | None = None
    proxy: str | None = None
    trust: Callable[[], None] = lambda: None
    """Trust the authorities that are named now besides those before. Raises InputError."""


async def read_access(kubeconfig: Path | None, context: str | None, account: Path = SERVICE_ACCOUNT) -> Access:
    """The access that `kubeconfig` describes in `context` (None: its current one).

    Without a kubeconfig it is the pod's service account, and outside a pod the user's own kubeconfig. Raises
    InputError, naming the file, when that cannot be used.
    """
    # Takes more than a second and is needed by no one who only asks for help or plays a simulation.
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
    from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config  # noqa: PLC0415
    from kubernetes_asyncio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION  # noqa: PLC0415
    from yaml import YAMLError  # type: ignore[import-untyped] # noqa: PLC0415 # PyYAML ships no types

    unreadable = (*_UNREADABLE, ConfigException, YAMLError)
    settings: Any = Configuration()
    in_pod = kubeconfig is None and context is None and (account / "token").exists()
    source = account if in_pod else kubeconfig or "the default kubeconfig"
    files = [] if in_pod else _files(kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION)
    if files and not any(_there(file) for file in files):
        raise InputError(
            f"{', '.join(map(str, files))}: no such file; log in to the cluster, or give a usable kubeconfig "
            "(--kubeconfig, KUBECONFIG, or kube.kubeconfig in the settings)"
        )
    loader: Any = None

    async def load() -> str | None:
        nonlocal loader
        try:
            if in_pod:
                load_incluster_config(  # type: ignore[no-untyped-call] # half of it has types
                    settings, token_filename=str(account / "token"), cert_filename=str(account / "ca.crt")
                )
            elif loader is None:
                path = None if kubeconfig is None else str(kubeconfig)
                loader = await load_kube_config(path, context, settings, persist_config=False)
            else:
                await loader.load_and_set(settings)
        except unreadable as error:
            raise InputError(f"{source}: {_words(error, str(source))}; give a usable kubeconfig") from error
        found: str | None = settings.api_key.get("BearerToken")
        return found.strip() if found else None

    header = await load()
    tls, trusted = _tls(settings, source), _authorities(settings, source)

    def trust() -> None:
        nonlocal trusted
        authorities = _authorities(settings, source)
        if authorities != trusted and isinstance(tls, ssl.SSLContext):
            try:
                tls.load_verify_locations(cadata=authorities)
            except (OSError, ValueError) as error:
                raise InputError(f"{source}: its certificates cannot be used: {error}") from error
            trusted = authorities

    return Access(settings.host.rstrip("/"), header, load, tls, settings.tls_server_name, settings.proxy, trust)


def _there(file: Path) -> bool:
    """Whether a file is there. Raises InputError for one that cannot be looked at."""
    try:
        return file.exists()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}; give a usable kubeconfig") from error


def _words(error: Exception, source: str) -> str:
    """What is wrong with a kubeconfig; kubernetes-asyncio stumbles over one of another form in Python's words.

    A token's file or a login command that it names, and that is not there, is named.
    """
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename in {None, source} else f"{error.filename}: {error.strerror}"
    if isinstance(error, TypeError | AttributeError | LookupError | AssertionError):
        return "empty, or of another form"
    return str(error) or type(error).__name__


def _files(named: Path | str) -> list[Path]:
    """Where a kubeconfig may be: one file, or as many as KUBECONFIG names."""
    names = [named] if isinstance(named, Path) else named.split(os.pathsep)
    return [Path(name).expanduser() for name in names if name]


class Credentials:
    """The ``Authorization`` header, looked at again once a minute and after a 401."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self.problem = ""
        """Why the last look failed; "" when it did not."""
        self._read, self._trust = access.reread, access.trust
        self._clock = clock
        self._header = access.header
        self._looked_s = clock.monotonic()
        self._refused = False
        self._looking = False

    async def header(self) -> str | None:
        """The header as far as is known. One caller looks, the others go on with the one in hand meanwhile."""
        now_s = self._clock.monotonic()
        wait_s = REFUSED_S if self._refused or self.problem else REFRESH_S
        if self._looking or now_s < self._looked_s + wait_s:
            return self._header
        self._looking = True
        try:
            async with asyncio.timeout(LOOK_S):
                self._header = await self._read()
            self._trust()
            self.problem, self._refused = "", False
        except (InputError, TimeoutError) as error:
            self.problem = str(error) or f"no credentials within {LOOK_S:g} s"
        finally:
            self._looking, self._looked_s = False, self._clock.monotonic()
        return self._header

    def refused(self) -> None:
        """The server did not accept the header: look again soon."""
        self._refused = True


@asynccontextmanager
async def open_session(access: Access) -> AsyncIterator[aiohttp.ClientSession]:
    """A session without a time limit of its own, and with as many connections as are asked for: each watch holds one,
    so that one number for all would let whoever follows more than that send nothing any more.

    Proxies come from the kubeconfig only, never from the environment. Bodies are not compressed: the API server would
    spend more time on it than the cluster's network takes.
    """
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=access.tls, socket_factory=_socket),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"{AGENT}/{__version__}",
        },
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        trust_env=False,
        read_bufsize=2**20,
    ) as session:
        yield session


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that forgets what it has not sent when it is closed, and asks whether there is still somebody.

    Else the kernel goes on sending a request that was given up, for minutes: a write of a leader that was cut off would
    arrive when the network is back, under the next leader.
    """
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBING.items():
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _authorities(settings: Any, source: object) -> str:
    """Whom the cluster's certificate may be of, in PEM; empty where no file says so. Raises InputError."""
    if not settings.ssl_ca_cert:
        return ""
    try:
        return Path(settings.ssl_ca_cert).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{source}: {settings.ssl_ca_cert}: {error.strerror}; give a usable kubeconfig") from error


def _tls(settings: Any, source: object) -> ssl.SSLContext | bool:
    if not settings.host.startswith("https"):
        return True
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except OSError as error:
        raise InputError(f"{source}: its certificates cannot be used: {error}") from error
    # Python 3.13 refuses authorities without a key identifier, which clusters have (kubernetes-client/python#2394).
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
