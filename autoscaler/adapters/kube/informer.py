"""A cache of one resource that follows the API server through any failure, and says how far behind it may be.

Enters: a resource, a client and whom to tell. Leaves: the objects by key and every change in order. A list is read page
by page and compared by UID with what is held; then a watch follows. Whatever ends the watch, the informer comes back by
itself: at once when it lasted, else after a wait that grows. What it cannot read of an object it names, and goes on.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic

import numpy as np

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.cache import Cache, Change
from autoscaler.adapters.kube.meta import Thin
from autoscaler.adapters.kube.retry import Backoff
from autoscaler.adapters.kube.times import InformerTimes
from autoscaler.adapters.kube.wire import PAGE, Event, Page, Resource, T, Unread, Wire
from autoscaler.ports import Clock, Fault

__all__ = ["Change", "Informer", "InformerTimes", "Resource"]

GONE = 410
"""The server no longer knows the version from which a watch or a page is asked for."""

BLIND = 2
"""After so many watches that showed nothing, one that is opened is no proof that nothing has changed."""

ABSENT = 404
FORBIDDEN = 403


class Informer(Generic[T]):
    """The objects of `resource`, kept current by `run`.

    `on_change` is called in the order of the changes, after `items` shows them; the first list is told as changes
    without an old object. `rng` spreads waits; informers must not share a seed.
    """

    def __init__(
        self,
        api: KubeApi,
        resource: Resource[T],
        clock: Clock,
        on_change: Callable[[Change[T]], None],
        *,
        times: InformerTimes | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.resource = resource
        self.path = resource.path
        self.absent = False
        """The server does not serve this resource; it is looked for again."""
        self.lists = 0
        """Lists completed of those that were begun since the last `relist`."""
        self._api = api
        self._clock = clock
        self._times = times or InformerTimes()
        self._rng = rng or np.random.default_rng()
        self._backoff = Backoff(self._rng, self._times.backoff)
        self._wire = Wire(resource)
        self._cache = Cache(on_change)
        self.items: Mapping[str, T] = MappingProxyType(self._cache.items)
        """The objects by key, live and read-only."""
        self.unread: Mapping[str, Unread] = MappingProxyType(self._cache.unread)
        """Objects whose newest version cannot be read, by key; `items` has an older version of them or none."""
        self.large: Mapping[str, int] = MappingProxyType(self._cache.large)
        """Bytes of the newest event about an object, by key, where they are far more than such objects have."""
        self._version: str | None = None
        """Where to watch from; None when only a list can tell."""
        self._heard_s = self._good_s = float("-inf")
        self._hung = False
        """The server was silent for too long, and did not answer since."""
        self._served = False
        self._missed_s: float | None = None
        """Since when the server has answered nothing but 404."""
        self._lasted = False
        """The last watch was a good one."""
        self._listed = False
        """A list was tried in this round, and no good watch has followed it yet."""
        self._fault: KubeError | None = None
        self._blind = 0
        """Watches in a row that were opened and broke before they showed anything."""
        self._doubted_s: float | None = None
        """Since when a watch is open that is not believed yet."""
        self._synced = asyncio.Event()
        self._wanted = asyncio.Event()
        self._scope: asyncio.Timeout | None = None

    @property
    def synced(self) -> bool:
        """A list was completed once, or the server said that it does not serve the resource."""
        return self._synced.is_set()

    @property
    def error(self) -> KubeError | None:
        """Why `items` may not be up to date: the server does not answer, or objects that cannot be read."""
        return self._trouble() or self._cache.trouble(self.path)

    @property
    def denied(self) -> bool:
        """The server does not let us read this resource; it is asked again, for rights may be granted any time."""
        fault = self._trouble()
        return fault is not None and fault.status == FORBIDDEN

    async def wait_synced(self) -> None:
        """Return once `synced`."""
        await self._synced.wait()

    def staleness_s(self) -> float:
        """Seconds since the server was last heard on this resource; infinite before the first list. Any thread may ask.

        While nothing changes it is heard about once a minute (a bookmark) or after `idle_s` (another watch).
        """
        believed_s = self._believed_s()
        heard_s = self._heard_s if believed_s is None else max(self._heard_s, believed_s)
        return self._clock.monotonic() - heard_s

    def cut_off_s(self) -> float:
        """For how long `items` may be behind: since the server stopped answering; 0 while it does. Any thread may ask.

        A stream that broke was good until then, however quiet; one that fell silent was so since it was heard last.
        """
        return 0.0 if self._trouble() is None else self._clock.monotonic() - self._good_s

    def relist(self) -> None:
        """Ask for a list that begins now, whatever is going on; `lists` grows when it is complete."""
        self._wanted.set()
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())
            self._scope = None

    def thin(self, key: str) -> None:
        """Hold as little of an object as can be, until its next version comes or it is read anew."""
        self._cache.thin(key)

    async def restore(self, key: str) -> bool:
        """Read an object anew of which little is held, and tell it; False where that has to be tried again.

        It is listed by its name: that takes no right that following does not take.
        """
        thin = self.items.get(key)
        if thin is None or not isinstance(thin.metadata, Thin):
            return True
        root, _, resource = self.path.rpartition("/")
        namespace, _, name = key.rpartition("/")
        path = f"{root}/namespaces/{namespace}/{resource}"
        query = [("fieldSelector", f"metadata.name={name}")]
        try:
            answer = await self._api.request("GET", path, query=query, timeout_s=self._times.page_s)
            page = self._wire.page(answer.body)
        except KubeError:
            return False  # what is wrong with the server, the watch tells
        for unread in page.unread:
            self._cache.mark(unread)
        return all(self._cache.restore(thin, found) for found in page.objects)

    async def run(self) -> None:
        """Follow the server until cancelled; trouble is shown in `error` and never raised."""
        while True:
            self._lasted = self._listed = False
            error: KubeError | None = None
            try:
                async with asyncio.timeout(None) as scope:
                    self._scope = scope
                    await self._follow()
            except KubeError as failure:
                self._hung = self._hung or failure.fault is Fault.TIMEOUT
                # What ends a good watch is trouble only if the next one, which is opened at once, fails too.
                if not self._lasted:
                    error = failure
                    self._note(error)
            except TimeoutError:
                if not scope.expired():
                    raise
            finally:
                self._scope = None
            await self._rest(error)

    async def _follow(self) -> None:
        """List unless there is a version to watch from, then watch until the stream ends."""
        if self._wanted.is_set() or self._version is None:
            await self._list()
        while True:
            await self._watch()

    async def _list(self) -> None:
        self._wanted.clear()
        self._version, self._listed = None, True
        keys = set[str]()
        version, token, limit = "", "", PAGE
        while True:
            try:
                page = await self._page(limit, token)
            except KubeError as error:
                if error.status != GONE or not token:
                    raise
                # The rest of a snapshot that is no longer kept: read everything at once instead.
                keys, version, token, limit = set(), "", "", 0
                continue
            for item in page.objects:
                keys.add(item.metadata.key)
                self._cache.put(item)
            for unread in page.unread:
                keys.add(unread.key)
                self._cache.mark(unread)
            version, token = version or page.version, page.token
            if not token:
                break
        self._cache.keep_only(keys)
        self._version = version
        self.absent, self._served, self._missed_s = False, True, None
        self._settle()
        if not self._wanted.is_set():
            self.lists += 1

    async def _page(self, limit: int, token: str) -> Page[T]:
        query = self._wire.list_query(limit, token)
        answer = await self._api.request("GET", self._wire.path, query=query, timeout_s=self._times.page_s)
        return self._wire.page(answer.body)

    async def _watch(self) -> None:
        """Take events until the server ends the stream; one that it ends too soon is an error."""
        assert self._version is not None
        query = self._wire.watch_query(self._version, float(self._rng.uniform(*self._times.watch_s)))
        self._lasted = False
        async with self._api.stream(self._wire.path, query, idle_s=self._times.idle_s) as lines:
            opened_s = self._clock.monotonic()
            if self._blind < BLIND:
                self._settle()
            else:
                self._doubted_s = opened_s
            self._blind += 1
            try:
                async for line in lines:
                    self._take(self._wire.event(line), len(line))
                    self._blind = 0
            finally:
                believed_s = self._believed_s()
                if believed_s is not None:
                    self._settle(max(self._heard_s, believed_s))
                self._doubted_s = None
                lasted_s = self._clock.monotonic() - opened_s
                if lasted_s >= self._times.lasting_s:
                    self._lasted, self._listed, self._blind = True, False, 0
                    self._backoff.reset()
        if not self._lasted:
            raise KubeError(Fault.UNAVAILABLE, f"GET {self._wire.path}: the watch was ended after {lasted_s:.1f} s")

    def _take(self, event: Event[T], size_bytes: int) -> None:
        self._heard_s = self._clock.monotonic()
        self._version = event.version or self._version
        if event.seen is None:
            return
        key = event.seen.key if isinstance(event.seen, Unread) else event.seen.metadata.key
        if event.type == "DELETED":
            self._cache.drop(key)
            return
        if isinstance(event.seen, Unread):
            self._cache.mark(event.seen)
        else:
            self._cache.put(event.seen)
        self._cache.weigh(key, size_bytes)

    def _trouble(self) -> KubeError | None:
        """What went wrong and is not over."""
        return None if self._believed_s() is not None else self._fault

    def _believed_s(self) -> float | None:
        """Since when the watch that is open after blind ones is believed, None while it is not: it has to stand for a
        while, in which what was missed is shown.

        That is read off and not noted: who asks may be in another thread, in which nothing here may change.
        """
        doubted_s = self._doubted_s
        if doubted_s is None:
            return None
        since_s = doubted_s + self._times.caught_up_s
        return since_s if self._clock.monotonic() >= since_s else None

    def _settle(self, heard_s: float | None = None) -> None:
        """The server answered, now unless it is said when: what is held is what it has."""
        self._heard_s = self._clock.monotonic() if heard_s is None else heard_s
        self._fault, self._hung = None, False
        self._synced.set()

    def _note(self, error: KubeError) -> None:
        """Keep what went wrong; after an answer that makes the version useless, only a list helps."""
        if self._fault is None:
            self._good_s = self._heard_s if self._hung or not self.synced else self._clock.monotonic()
        self._fault = error
        if error.fault is Fault.INVALID:
            self._version = None
        if error.status != ABSENT:
            self._missed_s = None
            return
        now_s = self._clock.monotonic()
        self._missed_s = now_s if self._missed_s is None else self._missed_s
        # An API server that has just started may not know its custom resources yet: they are not gone at once.
        if not self._served or now_s >= self._missed_s + self._times.absent_s:
            self._cache.keep_only(frozenset())
            self.absent, self._served = True, False
            self._settle()

    async def _rest(self, error: KubeError | None) -> None:
        """Wait before the next attempt, unless it is sure to be worth one at once; `relist` ends the wait."""
        if error is None:
            return
        if error.status == GONE and not self._listed:
            return  # the version was old: a list helps, unless that is what was just tried
        wait_s = self._times.absent_s if self.absent else self._backoff.next_s(error.retry_after_s)
        await self._clock.sleep_until(self._clock.monotonic() + wait_s, self._wanted)
