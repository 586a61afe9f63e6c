"""A WarmPool is read whole or refused with field and remedy, and compiled into what the core works on."""

import json
import re
from datetime import datetime
from typing import Any

import msgspec
import pytest

from autoscaler.api.calendar import read_schedule, read_zone, windows
from autoscaler.api.shapes import Shape
from autoscaler.api.warm_pool import read_warm_pool
from autoscaler.api.warm_pool_cache import NODES_OWN
from autoscaler.api.warm_pool_params import compile_pool, events_of
from autoscaler.core.params import KnownEvent
from autoscaler.core.pool.params import CapacityType, GangTerms, PoolParams, Sharing
from autoscaler.errors import InputError
from tests.api.pools import FAULTY, MADE, MODEL, SHAPES, SOUND, SPOT, TIER, event, spec
from tests.conftest import ROOT


def compiled(fields: dict[str, Any], now: str = "2026-11-21T12:00:00+00:00", **more: Any) -> PoolParams:
    pool = read_warm_pool(json.dumps(fields).encode())
    return compile_pool("chat", pool, SHAPES, now_s=at(now), **more)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize("fields", SOUND.values(), ids=SOUND)
def test_a_sound_pool_is_read_and_compiled(fields: dict[str, Any]) -> None:
    assert compiled(fields).name == "chat"


@pytest.mark.parametrize(("fields", "words"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_pool_is_refused_with_field_and_remedy(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        compiled(fields)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("/", True), ("/etc", True), ("/etc/kubernetes/pki", True), ("/var", True), ("/var/", True), ("/var/lib", True),
        ("/var/lib/kubelet/pods", True), ("/var/log", True), ("/run/containerd", True), ("/dev/shm", True),
        ("//etc", True), ("/./etc", True), ("/cache/../etc", True), ("/cache/.", True), ("/proc/1/root", True),
        ("/var/lib/headroom/cache", False), ("/var/lib/cache", False), ("/cache", False), ("/nvme/.models", False),
        ("/opt", True), ("/opt/cni/bin", True), ("/opt/nvidia", True), ("/tmp", True), ("/var/tmp/x", True),
        ("/opt/models", False), ("/opt/dlami/nvme", False), ("/mnt/etc", False), ("/etcetera", False),
        ("/var/cache/weights", False), ("/data/", False),
    ],
)  # fmt: skip
def test_a_cache_is_no_folder_of_the_nodes_own(path: str, is_own: bool) -> None:
    assert bool(re.search(NODES_OWN, path)) is is_own


def test_the_policy_of_slots_and_the_definition_know_the_same_folders() -> None:
    policy = msgspec.yaml.decode((ROOT / "config/rbac/warm-pools/admission-policy.yaml").read_text().split("---")[0])
    told = [each["expression"] for each in policy["spec"]["validations"] if "node's own" in each["message"]]
    assert told == [
        f"object.spec.?volumes.orValue([]).all(v, !has(v.hostPath) || !v.hostPath.path.matches( '{NODES_OWN}'))"
    ]
    assert f"matches('{NODES_OWN}')" in (ROOT / "config/crd/headroom.dev_warmpools.yaml").read_text().replace("''", "'")


def test_an_empty_spec_is_refused() -> None:
    with pytest.raises(InputError, match="spec: missing"):
        read_warm_pool(b"")


def test_tiers_take_sku_and_capacity_type_from_their_shapes() -> None:
    params = compiled(spec(tiers=[TIER, SPOT], spotMaxRatio=0.5))
    assert [(t.name, t.node_pool, t.sku, t.capacity_type) for t in params.tiers] == [
        ("first", "gpu-h100", "h100", CapacityType.ON_DEMAND),
        ("spot", "gpu-spot", "h100", CapacityType.SPOT),
    ]
    assert params.spot_ratio == 0.5


def test_no_node_is_made_for_a_gang_unless_the_pool_says_for_how_many_gpus() -> None:
    assert compiled(spec()).gangs is None
    params = compiled(spec(gangs={"maxGpus": 64}))
    assert params.gangs == GangTerms(64.0, 900.0)
    assert [tier.shape for tier in params.tiers] == ["h100"], "batch work names the nodes so"


def test_slots_of_a_sliced_shape_hold_a_part_of_a_gpu() -> None:
    params = compiled(spec(tiers=[{**TIER, "shape": "h100-mig"}]))
    assert (params.slot.resource, params.slot.sharing, params.slot.gpus) == ("nvidia.com/mig-3g.40gb", Sharing.MIG, 0.5)


def test_a_managed_tier_has_a_nodepool_of_the_pools_name() -> None:
    assert compiled(spec(managed=True, tiers=[MADE])).tiers[0].node_pool == "chat-first"


def test_a_name_that_fits_no_label_is_refused_before_any_slot_is() -> None:
    """Kubernetes takes 253 characters as a name and 63 as the value of a label, by which slots and nodes are found."""
    given, managed = (read_warm_pool(json.dumps(one).encode()) for one in (spec(), spec(managed=True, tiers=[MADE])))
    assert compile_pool("p" * 63, given, SHAPES, now_s=0.0).name == "p" * 63
    with pytest.raises(InputError, match=r"^metadata.name: p{64} has 64 characters, and slots carry it in a label"):
        compile_pool("p" * 64, given, SHAPES, now_s=0.0)
    with pytest.raises(InputError, match=r"^spec.tiers\[0\].name: p{58}-first has 64 characters, and nodes of its"):
        compile_pool("p" * 58, managed, SHAPES, now_s=0.0)


def test_versions_are_compared_by_their_numbers() -> None:
    assert compiled(spec(slot={"minDriver": "580.65"})).slot.min_driver == (580, 65)


@pytest.mark.parametrize("parts", [(Sharing.WHOLE, 2), (Sharing.MIG, 1)])
def test_a_shape_that_contradicts_itself_is_refused(parts: tuple[Sharing, int]) -> None:
    with pytest.raises(ValueError, match="whole GPUs have 1 part"):
        Shape(sku="h100", sharing=parts[0], parts=parts[1])


def test_another_image_other_weights_or_another_digest_are_other_content_and_another_size_is_not() -> None:
    pinned = [{**MODEL, "image": f"registry.example.com/vllm@sha256:{digest * 64}"} for digest in "ab"]
    given = (MODEL, {**MODEL, "image": "registry.example.com/vllm:v2"}, {**MODEL, "weights": "hf://example/b"}, *pinned)
    contents = [compiled(spec(models=[model], cache={"claim": "weights"})).content for model in given]
    assert len(set(contents)) == len(given)
    assert compiled(spec(models=[MODEL], minSlots=2, cache={"claim": "weights"})).content == contents[0]


def test_weights_in_another_volume_are_other_content_and_a_cache_of_no_weights_is_none() -> None:
    caches: list[dict[str, Any]] = [
        {"claim": "weights"}, {"claim": "other"},
        {"hostPath": "/var/lib/headroom/a"}, {"hostPath": "/var/lib/headroom/b"},
    ]  # fmt: skip
    weighty = {**MODEL, "weights": "hf://example/a"}
    contents = [compiled(spec(models=[weighty], cache=cache)).content for cache in caches]
    assert len(set(contents)) == 4
    assert len({content.partition(".")[0] for content in contents}) == 1
    moved = {**caches[0], "mountPath": "/elsewhere"}
    assert compiled(spec(models=[weighty], cache=moved)).content == contents[0], "in the volume it is the same place"
    light = {"name": "a", "image": MODEL["image"]}
    assert len({compiled(spec(models=[light], cache=cache)).content for cache in caches}) == 1


def test_prices_decide_nothing_of_a_pool() -> None:
    """Tiers are taken in the order of the list; where nobody names a price it is the same pool."""
    priced = {name: shape.model_copy(update={"gpu_hour_price": 9.9}) for name, shape in SHAPES.items()}
    free = {name: shape.model_copy(update={"gpu_hour_price": None}) for name, shape in SHAPES.items()}
    pool = read_warm_pool(json.dumps(spec(tiers=[TIER, SPOT], spotMaxRatio=0.5)).encode())
    first, second = (
        compile_pool("chat", pool, shapes, now_s=at("2026-11-21T12:00:00+00:00")) for shapes in (priced, free)
    )
    assert first == second


def test_a_schedule_begins_at_its_local_time_summer_and_winter() -> None:
    schedule, zone = read_schedule("30 7 * * MON-FRI"), read_zone("Europe/Berlin")
    friday, monday = at("2026-10-23T00:00:00+00:00"), at("2026-10-27T00:00:00+00:00")
    begins = [begin_s for begin_s, _ in windows(schedule, zone, 3600.0, friday, monday)]
    assert begins == [at("2026-10-23T07:30:00+02:00"), at("2026-10-26T07:30:00+01:00")], "the clocks went back between"


def test_a_window_that_has_begun_is_still_told() -> None:
    schedule, zone = read_schedule("0 22 * * *"), read_zone("UTC")
    now_s = at("2026-11-21T01:00:00+00:00")
    assert next(windows(schedule, zone, 4 * 3600.0, now_s, now_s + 60.0)) == (now_s - 3 * 3600.0, now_s + 3600.0)


@pytest.mark.parametrize(
    ("text", "day", "hits"),
    [
        ("0 8 * * 1-5", "2026-11-21", False),
        ("0 8 * * SAT,SUN", "2026-11-21", True),
        ("0 8 * * 7", "2026-11-22", True),
        ("0 8 1 * MON", "2026-12-01", True),
        ("0 8 1 * MON", "2026-11-23", True),
        ("0 8 1 * MON", "2026-11-24", False),
        ("0 8 * DEC *", "2026-11-24", False),
        ("0 8 */2 * *", "2026-11-23", True),
        ("0 8 10-20/5 * *", "2026-11-15", True),
        ("0 8 10-20/5 * *", "2026-11-16", False),
    ],
)
def test_days_match_as_crons_do(text: str, day: str, hits: bool) -> None:
    assert read_schedule(text).on(datetime.fromisoformat(day).date()) is hits


@pytest.mark.parametrize("text", ["1-x 2 * * *", "5-1 2 * * *", "*/0 2 * * *", "² 2 * * *", "60 2 * * *", "0 2 0 * *"])
def test_a_schedule_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="give"):
        read_schedule(text)


def test_an_event_that_expires_in_a_window_ends_it() -> None:
    pool = read_warm_pool(json.dumps(event(expires="2026-11-24T08:00:00Z")).encode())
    assert events_of(pool, at("2026-11-21T12:00:00+00:00")) == (
        KnownEvent(at("2026-11-23T07:30:00+00:00"), at("2026-11-23T08:30:00+00:00"), 4, None),
        KnownEvent(at("2026-11-24T07:30:00+00:00"), at("2026-11-24T08:00:00+00:00"), 4, None),
    )
    assert events_of(pool, at("2026-11-25T12:00:00+00:00")) == ()
