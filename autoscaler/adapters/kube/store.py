"""Checkpoints in ConfigMaps: one generation at a time, whole or not at all.

``PREFIX-index`` names the shards of the current generation and their digests; ``PREFIX-N-a`` and ``PREFIX-N-b`` are
the two copies of shard N, of which the index names at most one. A save writes changed shards into the copies that are
not in use, then the index, then removes what no generation needs. A reader takes what the index names and checks every
digest: it has a complete generation, or an error that names the ConfigMap.

Every write is conditional on the version last read, so that one which arrives late, from a process that no longer
leads, is refused. Verbs: get, update and delete on these names, and create, which RBAC cannot bind to names. The names
begin with the lease's: whoever leads by another lease of the namespace keeps what is his.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.objects import ConfigMap
from autoscaler.adapters.kube.writing import Requests, decoded
from autoscaler.ports import Fault, PortError

MOST_BYTES: Final = 900 * 1024
"""In one shard; a ConfigMap may hold 1 MiB."""

MOST_SHARDS: Final = 32
"""Some 7,000 workloads of 4 KiB; settings.limits refuses more than 6,000. A power of two."""

LABELS: Final = {"app.kubernetes.io/managed-by": "headroom", "app.kubernetes.io/component": "checkpoints"}
"""Tell our ConfigMaps from others of the same name, which are never written."""

INDEX_KEY: Final = "index.json"
SHARD_KEY: Final = "checkpoints.json"


class Stored(Enum):
    """What a leader keeps, by what its ConfigMaps are called after the lease."""

    CHECKPOINTS = "checkpoint"
    WARM_UPS = "warmup"
    SHADOW = "shadow"
    POOLS = "pools"

    def prefix(self, lease: str) -> str:
        """What the names begin with of the ConfigMaps of whoever leads by this lease."""
        return f"{lease}-{self.value}"


def config_maps(lease: str) -> tuple[str, ...]:
    """Every ConfigMap that whoever leads by this lease may keep."""
    return tuple(name for each in Stored for name in _names(each.prefix(lease)))


def _names(prefix: str) -> Iterator[str]:
    yield _index_of(prefix)
    for slot in range(MOST_SHARDS):
        yield from _copies(prefix, slot)


def _index_of(prefix: str) -> str:
    return f"{prefix}-index"


def _copies(prefix: str, slot: int) -> tuple[str, str]:
    return f"{prefix}-{slot}-a", f"{prefix}-{slot}-b"


class _Shard(msgspec.Struct, frozen=True):
    slot: int
    name: str
    version: str
    """The ConfigMap's resourceVersion, so that nothing newer is removed."""
    sha256: str


class _Index(msgspec.Struct, frozen=True):
    generation: int = 0
    shards: tuple[_Shard, ...] = ()
    version: str | None = None
    """The index's own resourceVersion; None where there is no index yet. Not kept in it."""


_config_map = msgspec.json.Decoder(ConfigMap)
_index = msgspec.json.Decoder(_Index)
_checkpoints = msgspec.json.Decoder(dict[str, dict[str, Any]])


class ConfigMapStore:
    """A `StateStore` in the namespace's ConfigMaps whose names begin with `prefix`.

    A PortError is DENIED where `may_write` says no, INVALID for a ConfigMap that is damaged or not ours.
    """

    def __init__(self, api: Requests, namespace: str, prefix: str, may_write: Callable[[], bool]) -> None:
        self._api = api
        self._namespace = namespace
        self._prefix = prefix
        self._may_write = may_write
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._known: _Index | None = None
        """The current generation as this store left it; None when the index has to be read."""
        self._litter: dict[str, _Shard] = {}
        """By name: shards that are of no generation, or will be of none, and were not seen to be removed."""

    async def load(self) -> Mapping[str, dict[str, Any]]:
        """The checkpoints of the newest complete generation; empty when nothing was ever saved. Raises PortError."""
        index = await self._read_index()
        while True:
            try:
                return await self._read_shards(index)
            except PortError:
                # A save may have replaced the generation that was being read.
                newer = await self._read_index()
                if newer.generation == index.generation:
                    raise
                index = newer

    async def save(self, checkpoints: Mapping[str, dict[str, Any]]) -> None:
        """Replace what is kept. Raises PortError; what was kept before is then kept still, or all of the new is."""
        texts = _packed(checkpoints)
        before = self._known or await self._read_index(damaged=_Index())
        self._known = None
        shards = tuple([await self._keep(before, slot, text) for slot, text in enumerate(texts)])
        if shards != before.shards:
            # Noted before it is so: whoever cancels this leaves to the next save what is to be removed.
            self._litter |= {shard.name: shard for shard in before.shards}
            self._known = await self._write_index(before, shards)
            for shard in shards:
                self._litter.pop(shard.name, None)
            for shard in tuple(self._litter.values()):
                if await self._remove(shard):
                    del self._litter[shard.name]
        else:
            self._known = before

    async def _keep(self, before: _Index, slot: int, text: bytes) -> _Shard:
        """The shard that holds `text`: the one in use if it does, else the slot's other copy, written now."""
        digest = hashlib.sha256(text).hexdigest()
        used = next((shard for shard in before.shards if shard.slot == slot), None)
        if used is not None and used.sha256 == digest:
            return used
        first, second = _copies(self._prefix, slot)
        name = second if used is not None and used.name == first else first
        data = {SHARD_KEY: text.decode()}
        try:
            version = await self._write("POST", name, data)
        except KubeError as error:
            if error.status != 409:
                raise
            # Left over from a save that was broken off, unless the index has gone on and names it now.
            left = (await self._get(name)).metadata.resource_version
            if (await self._read_index(damaged=_Index())).version != before.version:
                raise
            version = await self._write("PUT", name, data, left)
        shard = self._litter[name] = _Shard(slot, name, version, digest)
        return shard

    async def _write_index(self, before: _Index, shards: tuple[_Shard, ...]) -> _Index:
        index = _Index(before.generation + 1, shards)
        data = {INDEX_KEY: msgspec.json.encode(index).decode()}
        method = "POST" if before.version is None else "PUT"
        version = await self._write(method, _index_of(self._prefix), data, before.version)
        return msgspec.structs.replace(index, version=version)

    async def _read_index(self, damaged: _Index | None = None) -> _Index:
        """The index; an empty one where there is none, `damaged` (if given) where ours cannot be read."""
        name = _index_of(self._prefix)
        try:
            content = await self._get(name)
        except KubeError as error:
            if error.status == 404:
                return _Index()
            raise
        try:
            index = _index.decode(content.data.get(INDEX_KEY, ""))
        except msgspec.DecodeError as error:
            if damaged is None:
                raise self._invalid(name, f"is damaged: {INDEX_KEY}: {error}") from error
            index = damaged
        return msgspec.structs.replace(index, version=content.metadata.resource_version)

    async def _read_shards(self, index: _Index) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for shard in index.shards:
            text = (await self._get(shard.name)).data.get(SHARD_KEY, "").encode()
            if hashlib.sha256(text).hexdigest() != shard.sha256:
                raise self._invalid(shard.name, f"is damaged: it is not what generation {index.generation} wrote")
            try:
                found |= _checkpoints.decode(text)
            except msgspec.DecodeError as error:
                raise self._invalid(shard.name, f"is damaged: {SHARD_KEY}: {error}") from error
        return found

    async def _get(self, name: str) -> ConfigMap:
        path = f"{self._collection}/{name}"
        found = decoded(_config_map, await self._api.request("GET", path), f"GET {path}")
        if LABELS.items() - found.metadata.labels.items():
            raise self._invalid(name, "is not Headroom's; delete it or configure another prefix")
        return found

    async def _write(self, method: str, name: str, data: dict[str, str], version: str | None = None) -> str:
        """Make (POST) or replace (PUT) a ConfigMap that still has `version`; its new version."""
        self._ask(name)
        metadata = {"name": name, "labels": LABELS} | ({"resourceVersion": version} if version else {})
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        path = self._collection if method == "POST" else f"{self._collection}/{name}"
        answer = await self._api.request(method, path, body=msgspec.json.encode(body))
        written = decoded(_config_map, answer, f"{method} {path}").metadata.resource_version
        if not written:
            raise self._invalid(name, f"may not be written: the answer to {method} shows no version")
        return written

    async def _remove(self, shard: _Shard) -> bool:
        """Delete a shard, unless somebody wrote it since; False where that has to be tried again."""
        self._ask(shard.name)
        body = msgspec.json.encode({"preconditions": {"resourceVersion": shard.version}})
        try:
            await self._api.request("DELETE", f"{self._collection}/{shard.name}", body=body)
        except KubeError as error:
            return error.status in {404, 409}
        return True

    def _ask(self, name: str) -> None:
        if not self._may_write():
            raise PortError(
                Fault.DENIED, f"ConfigMap {self._namespace}/{name}: not written: this process does not lead"
            )

    def _invalid(self, name: str, why: str) -> PortError:
        return PortError(Fault.INVALID, f"ConfigMap {self._namespace}/{name} {why}")


def _packed(checkpoints: Mapping[str, dict[str, Any]]) -> list[bytes]:
    """The checkpoints as JSON objects of at most `MOST_BYTES`; a name stays in its shard while their number does, and
    the shard has room."""
    rows = {name: msgspec.json.encode({name: checkpoints[name]}, order="sorted")[1:-1] for name in sorted(checkpoints)}
    count = 1
    while count <= MOST_SHARDS:
        shards: list[list[bytes]] = [[] for _ in range(count)]
        for name, row in rows.items():
            shards[zlib.crc32(name.encode()) % count].append(row)
        if count == MOST_SHARDS:
            _level(shards)
        texts = [b"{" + b",".join(shard) + b"}" for shard in shards]
        if max(map(len, texts)) <= MOST_BYTES:
            return texts
        count *= 2
    size = sum(map(len, rows.values()))
    raise PortError(
        Fault.INVALID, f"checkpoints of {len(rows)} workloads, {size} bytes, do not fit {MOST_SHARDS} shards"
    )


def _level(shards: list[list[bytes]]) -> None:
    """Move rows from shards that are too full to the emptiest, in place: names are spread by chance, and at 6,000 of
    4 KiB one shard is too full in one case of ten."""
    sizes = [sum(len(row) + 1 for row in shard) + 1 for shard in shards]
    for at, shard in enumerate(shards):
        while sizes[at] > MOST_BYTES:
            to, size = min(range(len(sizes)), key=sizes.__getitem__), len(shard[-1]) + 1
            if sizes[to] + size > MOST_BYTES:
                return
            shards[to].append(shard.pop())
            sizes[at] -= size
            sizes[to] += size
