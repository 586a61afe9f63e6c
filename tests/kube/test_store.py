"""Checkpoints in ConfigMaps: whole generations or an error, whatever breaks a save off or damages what it left."""

import asyncio
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import looptime
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.store import LABELS, MOST_BYTES, MOST_SHARDS, ConfigMapStore, Stored, config_maps
from autoscaler.ports import Fault, PortError
from autoscaler.settings.limits import MOST_KEPT
from tests.kube.apis import Apis, Direct, Ill, serving

AT = "/api/v1/namespaces/headroom/configmaps"
Kept = dict[str, dict[str, Any]]


def store(apis: Apis, may_write: Callable[[], bool] = lambda: True) -> ConfigMapStore:
    return ConfigMapStore(Direct(apis), "headroom", "headroom-state", may_write)


def checkpoints(count: int, size: int = 100, *, mark: int = 0) -> Kept:
    """Checkpoints of `count` workloads, of `size` bytes each or a little more; `mark` tells generations apart."""
    return {f"prod/llama-{n}": {"version": 1, "mark": mark, "text": "x" * size} for n in range(count)}


def names(apis: Apis) -> list[str]:
    return sorted(path.removeprefix(f"{AT}/headroom-state-") for path in apis.objects)


def writes(apis: Apis) -> list[str]:
    """Method and name of every write, as the server saw them."""
    marks = [(m, p, b) for (m, p), b in zip(apis.asked, apis.bodies, strict=True) if m != "GET"]
    return [f"{m} {(b['metadata']['name'] if m == 'POST' else p).rsplit('state-', 1)[1]}" for m, p, b in marks]


async def test_nothing_saved_is_nothing_kept() -> None:
    assert await store(Apis()).load() == {}


async def test_a_thousand_workloads_of_4_kib_come_back_whole_over_a_real_socket() -> None:
    apis, kept = Apis(), checkpoints(1000, 4000)
    async with serving(apis) as api:
        await ConfigMapStore(api, "headroom", "headroom-state", lambda: True).save(kept)
        assert await ConfigMapStore(api, "headroom", "headroom-state", lambda: True).load() == kept
    sizes = [len(content["data"]["checkpoints.json"]) for path, content in apis.objects.items() if "index" not in path]
    assert len(sizes) == 8
    assert min(sizes) > 300_000
    assert max(sizes) <= MOST_BYTES


async def test_as_many_workloads_as_the_settings_let_be_taken_up_fit_with_4_kib_each() -> None:
    kept = checkpoints(MOST_KEPT, 4064)
    assert min(len(msgspec.json.encode(each)) for each in kept.values()) >= 4096
    apis = Apis()
    await store(apis).save(kept)
    assert len(await store(apis).load()) == MOST_KEPT


async def test_names_that_chance_puts_into_one_shard_fit_wherever_there_is_room() -> None:
    everybody = (f"prod/llama-{n}" for n in range(12_000))
    alike = [name for name in everybody if zlib.crc32(name.encode()) % MOST_SHARDS == 0]
    kept = {name: {"version": 1, "text": "x" * 4064} for name in alike}
    assert len(kept) * 4096 > 1.5 * MOST_BYTES
    apis = Apis()
    await store(apis).save(kept)
    assert await store(apis).load() == kept
    assert max(len(each["data"].get("checkpoints.json", "")) for each in apis.objects.values()) <= MOST_BYTES


async def test_a_save_removes_what_no_generation_needs_any_more() -> None:
    apis = Apis()
    ours = store(apis)
    await ours.save(checkpoints(3, mark=1))
    assert names(apis) == ["0-a", "index"]
    await ours.save(checkpoints(3, mark=2))
    assert names(apis) == ["0-b", "index"]
    await ours.save(checkpoints(1000, 4000))
    assert len(names(apis)) == 9
    await ours.save(checkpoints(3))
    assert names(apis) in (["0-a", "index"], ["0-b", "index"])
    assert await store(apis).load() == checkpoints(3)


async def test_rights_can_name_all_that_is_ever_kept_and_two_leases_of_a_namespace_share_none_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autoscaler.adapters.kube.store.MOST_BYTES", 3000)  # 26 MiB would be all shards else
    apis = Apis()
    for lease in ("blue", "green"):
        for what in Stored:
            ours = ConfigMapStore(Direct(apis), "headroom", what.prefix(lease), lambda: True)
            for mark in (1, 2):
                await ours.save(checkpoints(260, 150, mark=mark))
            await ours.save(checkpoints(3, mark=3))
    every = {*config_maps("blue"), *config_maps("green")}
    made = {
        body["metadata"]["name"] for (method, _), body in zip(apis.asked, apis.bodies, strict=True) if method == "POST"
    }
    assert made <= every
    assert len(made) == 2 * len(Stored) * (1 + 2 * MOST_SHARDS), "each was made at least once"
    assert len(every) == 2 * len(Stored) * (1 + 2 * MOST_SHARDS)
    blue = ConfigMapStore(Direct(apis), "headroom", Stored.SHADOW.prefix("blue"), lambda: True)
    await blue.save({})
    green = ConfigMapStore(Direct(apis), "headroom", Stored.SHADOW.prefix("green"), lambda: True)
    assert await green.load() == checkpoints(3, mark=3)


async def test_shards_that_did_not_change_are_not_written_again() -> None:
    apis = Apis()
    kept = checkpoints(1000, 4000)
    await store(apis).save(kept)
    before = dict(apis.objects)
    kept["prod/llama-7"] = {"version": 2}
    apis.asked.clear()
    apis.bodies.clear()
    ours = store(apis)
    await ours.save(kept)
    assert [write.split()[0] for write in writes(apis)] == ["POST", "PUT", "DELETE"]
    assert len([path for path in before if path in apis.objects and apis.objects[path] == before[path]]) == 7
    asked = len(apis.asked)
    await ours.save(kept)
    await ours.save(kept)
    assert len(apis.asked) == asked, "and saves of the same ask for nothing at all"


async def test_the_first_save_of_a_new_leader_goes_on_from_the_old_ones_generation() -> None:
    apis = Apis()
    await store(apis).save(checkpoints(3, mark=1))
    await store(apis).save(checkpoints(3, mark=2))
    assert '"generation":2' in apis.objects[f"{AT}/headroom-state-index"]["data"]["index.json"]
    assert names(apis) == ["0-b", "index"]


async def test_nothing_is_written_without_the_lead() -> None:
    apis = Apis()
    with pytest.raises(
        PortError, match="headroom/headroom-state-0-a: not written: this process does not lead"
    ) as denied:
        await store(apis, lambda: False).save(checkpoints(3))
    assert denied.value.fault is Fault.DENIED
    assert apis.objects == {}


@pytest.mark.parametrize("allowed", range(6))
async def test_a_lead_lost_in_the_middle_of_a_save_stops_it_there(allowed: int) -> None:
    apis = Apis()
    await store(apis).save(checkpoints(1000, 1500, mark=1))
    lead = iter([True] * allowed)
    apis.asked.clear()
    apis.bodies.clear()
    with suppress(PortError):
        await store(apis, lambda: next(lead, False)).save(checkpoints(1000, 1500, mark=2))
    assert len(writes(apis)) == allowed
    loaded = await store(apis).load()
    assert loaded in (checkpoints(1000, 1500, mark=1), checkpoints(1000, 1500, mark=2))


ILLS = st.lists(st.none() | st.sampled_from(Ill), max_size=12)
COUNTS = st.lists(st.sampled_from([10, 300]), min_size=4, max_size=4)


@settings(max_examples=30, deadline=None)
@given(
    troubles=st.lists(ILLS, min_size=1, max_size=4), counts=st.lists(st.sampled_from([10, 300]), min_size=4, max_size=4)
)
def test_after_any_broken_saves_a_reader_has_one_whole_generation(
    troubles: list[list[Ill | None]], counts: list[int]
) -> None:
    """The last generation whose save succeeded, or one that was under way later; then a healthy save repairs all."""

    async def play() -> None:
        apis = Apis()
        ours, possible = store(apis), [Kept()]
        for mark, (ills, count) in enumerate(zip(troubles, counts, strict=False)):
            new = checkpoints(count, 4000, mark=mark)
            apis.ills = list(ills)
            try:
                await ours.save(new)
            except PortError:
                possible.append(new)
            else:
                possible = [new]
            apis.ills = []
            loaded = dict(await store(apis).load())
            assert loaded in possible
            possible = [loaded, *possible]
        await ours.save(checkpoints(3))
        assert await store(apis).load() == checkpoints(3)

    with closing(looptime.new_event_loop(noop_cycles=1)) as loop:
        loop.run_until_complete(play())


async def test_a_save_that_another_leader_overtook_is_refused_and_spoils_nothing() -> None:
    apis = Apis()
    old, new = store(apis), store(apis)
    await old.save(checkpoints(3, mark=1))
    await new.save(checkpoints(3, mark=2))
    with pytest.raises(KubeError, match="409"):
        await old.save(checkpoints(3, mark=3))
    assert await store(apis).load() == checkpoints(3, mark=2)


async def test_a_save_that_was_overtaken_twice_cannot_bring_an_old_generation_back() -> None:
    apis = Apis()
    old, new = store(apis), store(apis)
    await old.save(checkpoints(3, mark=1))
    await new.save(checkpoints(3, mark=2))
    await new.save(checkpoints(3, mark=3))
    with pytest.raises(KubeError, match="index: 409 Conflict"):
        await old.save(checkpoints(3, mark=4))
    assert await store(apis).load() == checkpoints(3, mark=3)


async def test_a_removal_that_failed_is_made_up_for() -> None:
    apis = Apis()
    ours = store(apis)
    await ours.save(checkpoints(300, 4000))
    apis.ills = [None, None, Ill.UNAVAILABLE, Ill.UNAVAILABLE]
    await ours.save(checkpoints(3, mark=1))
    assert names(apis) == ["0-a", "0-b", "1-a", "index"]
    await ours.save(checkpoints(3, mark=2))
    assert names(apis) == ["0-a", "index"]


class Held(Direct):
    """Calls of this method on names that end so are carried out, if `arrives`, and never answered."""

    def __init__(self, apis: Apis, method: str, ending: str, *, arrives: bool) -> None:
        super().__init__(apis)
        self._method, self._ending, self._arrives = method, ending, arrives
        self.waits = asyncio.Event()
        self.well = False

    async def request(self, method: str, path: str, *, body: bytes | None = None, **options: Any) -> Answer:
        held = not self.well and method == self._method and path.endswith(self._ending)
        if held and not self._arrives:
            self.waits.set()
            await asyncio.Event().wait()
        answer = await super().request(method, path, body=body, **options)
        if held:
            self.waits.set()
            await asyncio.Event().wait()
        return answer


@pytest.mark.parametrize("arrives", [False, True], ids=["is lost", "arrives"])
@pytest.mark.parametrize(
    ("method", "ending", "before"),
    [
        pytest.param("DELETE", "", 4, id="while it removes what no generation needs"),
        pytest.param("PUT", "index", 4, id="while it writes an index of fewer shards"),
        pytest.param("PUT", "index", 1, id="while it writes an index of more shards"),
    ],
)
async def test_what_a_save_that_was_cancelled_left_is_removed_by_the_next(
    method: str, ending: str, before: int, arrives: bool
) -> None:
    apis = Apis()
    wire = Held(apis, method, ending, arrives=arrives)
    wire.well = True
    ours = ConfigMapStore(wire, "headroom", "headroom-state", lambda: True)
    await ours.save(checkpoints(900 if before == 4 else 3, 4000))
    assert len(names(apis)) == before + 1
    wire.well = False
    broken = asyncio.create_task(ours.save(checkpoints(3 if before == 4 else 900, 4000, mark=1)))
    await wire.waits.wait()
    broken.cancel()
    with suppress(asyncio.CancelledError):
        await broken
    wire.well = True
    await ours.save(checkpoints(3, mark=2))
    assert names(apis) in (["0-a", "index"], ["0-b", "index"])
    assert await store(apis).load() == checkpoints(3, mark=2)


async def test_a_removal_that_arrives_late_spares_what_was_written_since() -> None:
    apis = Apis()
    wire = Slow(apis)
    old, new = ConfigMapStore(wire, "headroom", "headroom-state", lambda: True), store(apis)
    await old.save(checkpoints(3, mark=1))
    await old.save(checkpoints(3, mark=2))
    await new.save(checkpoints(3, mark=3))
    assert names(apis) == ["0-a", "index"]
    [(path, body)] = wire.held
    assert path.endswith("headroom-state-0-a")
    with pytest.raises(KubeError, match="409 Conflict"):
        await Direct(apis).request("DELETE", path, body=body)
    assert await store(apis).load() == checkpoints(3, mark=3)


class Slow(Direct):
    """Removals are on their way for a long time."""

    def __init__(self, apis: Apis) -> None:
        super().__init__(apis)
        self.held: list[tuple[str, bytes | None]] = []

    async def request(self, method: str, path: str, *, body: bytes | None = None, **options: Any) -> Answer:
        if method == "DELETE":
            self.held.append((path, body))
            return Answer(200, b"{}", {})
        return await super().request(method, path, body=body, **options)


async def test_a_reader_overtaken_by_a_save_reads_the_new_generation() -> None:
    apis = Apis()
    ours = store(apis)
    await ours.save(checkpoints(3, mark=1))
    later = dict(apis.objects)
    await ours.save(checkpoints(3, mark=2))
    newest, apis.objects = apis.objects, {f"{AT}/headroom-state-index": later[f"{AT}/headroom-state-index"]}

    def overtake(method: str, path: str) -> None:
        if path.endswith("0-a"):
            apis.objects = newest

    apis.before = overtake
    assert await store(apis).load() == checkpoints(3, mark=2)


def spoil(apis: Apis, name: str, **parts: Any) -> None:
    apis.edit(f"{AT}/headroom-state-{name}", **parts)


@pytest.mark.parametrize(
    ("name", "parts", "words"),
    [
        ("0-a", {"data": {"checkpoints.json": '{"prod/llama-0":{}}'}}, "headroom-state-0-a is damaged: it is not what"),
        ("0-a", {"data": {}}, "headroom-state-0-a is damaged: it is not what generation 1 wrote"),
        ("index", {"data": {}}, "headroom-state-index is damaged: index.json: Input data was truncated"),
        ("index", {"data": {"index.json": '{"generation":"x"}'}}, "headroom-state-index is damaged: index.json"),
        ("index", {"metadata": {"name": "headroom-state-index", "uid": "u"}}, "headroom-state-index is not Headroom's"),
        ("0-a", {"metadata": {"name": "headroom-state-0-a", "uid": "u"}}, "headroom-state-0-a is not Headroom's"),
    ],
    ids=["half a shard", "empty shard", "empty index", "index of another form", "foreign index", "foreign shard"],
)
async def test_a_damaged_or_foreign_config_map_is_named_and_nothing_is_loaded(
    name: str, parts: dict[str, Any], words: str
) -> None:
    apis = Apis()
    await store(apis).save(checkpoints(3))
    spoil(apis, name, **parts)
    with pytest.raises(PortError, match=f"ConfigMap headroom/{words}") as invalid:
        await store(apis).load()
    assert invalid.value.fault is Fault.INVALID


async def test_a_shard_that_is_gone_is_named() -> None:
    apis = Apis()
    await store(apis).save(checkpoints(3))
    del apis.objects[f"{AT}/headroom-state-0-a"]
    with pytest.raises(PortError, match="configmaps/headroom-state-0-a: 404"):
        await store(apis).load()


async def test_a_damaged_index_of_ours_is_replaced_by_the_next_save() -> None:
    apis = Apis()
    await store(apis).save(checkpoints(3, mark=1))
    spoil(apis, "index", data={})
    await store(apis).save(checkpoints(3, mark=2))
    assert await store(apis).load() == checkpoints(3, mark=2)


@pytest.mark.parametrize("name", ["index", "0-a"])
async def test_a_config_map_of_somebody_else_is_never_written(name: str) -> None:
    apis = Apis()
    theirs = apis.put(f"{AT}/headroom-state-{name}", {"kind": "ConfigMap", "data": {"theirs": "1"}})
    with pytest.raises(PortError, match=f"headroom-state-{name} is not Headroom's; delete it or configure another"):
        await store(apis).save(checkpoints(3))
    assert apis.objects[f"{AT}/headroom-state-{name}"] == theirs


@pytest.mark.parametrize("ill", [Ill.HTML_200, Ill.EMPTY_200])
async def test_a_page_of_somebody_else_is_no_empty_store(ill: Ill) -> None:
    apis = Apis()
    await store(apis).save(checkpoints(3))
    apis.ills = [ill]
    with pytest.raises(PortError):
        await store(apis).load()


async def test_more_than_fits_is_refused_before_anything_is_written() -> None:
    apis = Apis()
    with pytest.raises(PortError, match="checkpoints of 1 workloads, 1000045 bytes, do not fit 32 shards"):
        await store(apis).save({"prod/llama": {"version": 1, "mark": 0, "text": "x" * 1_000_000}})
    assert apis.asked == []


async def test_every_config_map_carries_our_labels() -> None:
    apis = Apis()
    await store(apis).save(checkpoints(3))
    assert all(content["metadata"]["labels"] == LABELS for content in apis.objects.values())
