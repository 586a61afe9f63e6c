"""How a resource's lists and watches are asked for, and how their bytes become objects.

Enters: pages and lines. Leaves: objects of the resource's narrow struct, and, for each that does not fit it, what can
still be said: its key and the reason. An answer that is no list, or a line that is no event, is a KubeError: then
nothing is known, and above all not that there are no objects.
"""

from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from autoscaler.adapters.kube.answers import UNREADABLE, KubeError, fault_of, read_status, words
from autoscaler.adapters.kube.meta import Meta
from autoscaler.ports import Fault

PAGE: Final = 500
"""Objects a page: some 4 MB of pods, which take the API server and the decoder a few milliseconds."""


class HasMeta(Protocol):
    """Any struct of a Kubernetes object."""

    @property
    def metadata(self) -> Meta:
        """The object's metadata."""
        ...


T = TypeVar("T", bound=HasMeta)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """What to follow: a path such as ``/api/v1/pods``, the struct of its objects, and selectors ("" selects all)."""

    path: str
    kind: type[T]
    label_selector: str = ""
    field_selector: str = ""


@dataclass(frozen=True, slots=True)
class Unread:
    """An object that does not fit its struct. `uid` and `version` are empty where even they cannot be read."""

    key: str
    uid: str
    version: str
    why: str
    meta: Meta | None = None
    """None where its metadata cannot be read as such."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list taken at `version`; `token` asks for the next part, "" at the end."""

    version: str
    token: str
    objects: list[T]
    unread: list[Unread]


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, which carries a version only."""

    type: str
    version: str
    seen: T | Unread | None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    token: str = msgspec.field(default="", name="continue")


class _Items(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None


class _RawItems(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


class _Line(msgspec.Struct):
    type: str
    seen: msgspec.Raw = msgspec.field(name="object")


class _Name(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Named(msgspec.Struct):
    metadata: _Name


class _Described(msgspec.Struct):
    metadata: Meta


_raw_items = msgspec.json.Decoder(_RawItems)
_line = msgspec.json.Decoder(_Line)
_named = msgspec.json.Decoder(_Named)
_described = msgspec.json.Decoder(_Described)


class Wire(Generic[T]):
    """Queries and decoders of one resource."""

    def __init__(self, resource: Resource[T]) -> None:
        self.path = resource.path
        self._selectors = [
            (name, text)
            for name, text in (("labelSelector", resource.label_selector), ("fieldSelector", resource.field_selector))
            if text
        ]
        self._object = msgspec.json.Decoder(resource.kind)
        self._items = msgspec.json.Decoder(_Items[resource.kind])  # type: ignore[name-defined] # a type at run time

    def list_query(self, limit: int, token: str) -> list[tuple[str, str]]:
        """The query for a page of at most `limit` objects (0: all of them), the first where `token` is empty."""
        query = [*self._selectors]
        if limit:
            query.append(("limit", str(limit)))
        if token:
            query.append(("continue", token))
        return query

    def watch_query(self, version: str, timeout_s: float) -> list[tuple[str, str]]:
        """The query for a watch from `version` that the server ends after `timeout_s`."""
        return [
            *self._selectors,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", str(max(1, round(timeout_s)))),
        ]

    def page(self, body: bytes) -> Page[T]:
        """The page in `body`. Raises KubeError where it is no list."""
        try:
            items = self._items.decode(body)
            page = Page(items.metadata.resource_version, items.metadata.token, items.items or [], [])
        except (msgspec.ValidationError, UnicodeDecodeError, RecursionError):
            page = self._one_by_one(body)
        except UNREADABLE as error:
            raise self._no_list(body) from error
        if not page.version:
            raise self._no_list(body)
        return page

    def event(self, line: bytes) -> Event[T]:
        """The event in `line`. Raises KubeError where it is none, or is the server's own ERROR."""
        try:
            event = _line.decode(line)
        except UNREADABLE as error:
            raise KubeError(Fault.INVALID, f"GET {self.path}: watch: no event: {words('', line)}") from error
        if event.type == "ERROR":
            raise self._server_error(event.seen)
        if event.type == "BOOKMARK":
            return Event(event.type, _name(event.seen).resource_version, None)
        seen = self._read(event.seen)
        version = seen.version if isinstance(seen, Unread) else seen.metadata.resource_version
        return Event(event.type, version, seen)

    def _one_by_one(self, body: bytes) -> Page[T]:
        """The page as far as it can be read, object by object."""
        try:
            items = _raw_items.decode(body)
        except UNREADABLE as error:
            raise self._no_list(body) from error
        objects, unread = list[T](), list[Unread]()
        for raw in items.items or ():
            seen = self._read(raw)
            if isinstance(seen, Unread):
                unread.append(seen)
            else:
                objects.append(seen)
        return Page(items.metadata.resource_version, items.metadata.token, objects, unread)

    def _read(self, raw: msgspec.Raw) -> T | Unread:
        try:
            return self._object.decode(raw)
        except UNREADABLE as error:
            name = _name(raw)
            return Unread(name.key, name.uid, name.resource_version, str(error), _meta(raw))

    def _no_list(self, body: bytes) -> KubeError:
        return KubeError(Fault.INVALID, f"GET {self.path}: no list of objects: {words('', body)}")

    def _server_error(self, raw: msgspec.Raw) -> KubeError:
        said = read_status(bytes(raw))
        code = said.code if said else None
        heading = f"{code or ''} {said.reason or '' if said else ''}".strip()
        return KubeError(
            fault_of(code) if code else Fault.UNAVAILABLE,
            f"GET {self.path}: watch: {heading}: {words('', bytes(raw), said)}",
            status=code,
            reason=said.reason or "" if said else "",
        )


def _name(raw: msgspec.Raw) -> _Name:
    """As much of the metadata as names an object; empty where not even that can be read."""
    try:
        return _named.decode(raw).metadata
    except UNREADABLE:
        return _Name()


def _meta(raw: msgspec.Raw) -> Meta | None:
    """The metadata of an object; None where that cannot be read."""
    try:
        return _described.decode(raw).metadata
    except UNREADABLE:
        return None
