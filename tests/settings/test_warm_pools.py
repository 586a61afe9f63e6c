"""What administrators say of warm pools: whose images slots pull, and shapes by name."""

import re

import pytest
from pydantic import ValidationError

from autoscaler.core.pool.params import CapacityType, Sharing
from autoscaler.settings.model import Settings
from autoscaler.settings.warm_pools import WarmPools

ALLOWED = WarmPools(registries=("registry.example.com/team", "quay.io", "docker.io/vllm", "localhost:5000"))

IMAGES = {
    "registry.example.com/team/vllm:v1": True,
    "registry.example.com/teammate/vllm:v1": False,
    "registry.example.com/other/vllm:v1": False,
    "quay.io/any/thing@sha256:00": True,
    "quay.io.evil.example.com/any/thing": False,
    "vllm/vllm-openai:v0.11.0": True,
    "docker.io/vllm/vllm-openai": True,
    "vllm": False,
    "localhost:5000/vllm": True,
}


@pytest.mark.parametrize(("image", "expected"), IMAGES.items(), ids=IMAGES)
def test_an_image_is_admitted_by_the_whole_part_of_its_registry(image: str, expected: bool) -> None:
    assert ALLOWED.admits(image) is expected


def test_without_a_registry_nothing_is_pulled() -> None:
    assert not WarmPools().admits("registry.example.com/team/vllm:v1")


CACHES = {
    "/var/lib/headroom/cache": True,
    "/var/lib/headroom/cache/": True,
    "/mnt/nvme0/weights-v2": True,
    "/var/lib/headroom": False,
    "/var/lib/headroom/": False,
    "/var/lib/headroom/cache/deep": False,
    "/var/lib/headroom/.hidden": False,
    "/var/lib/headroom/..": False,
    "/var/lib/headroom-other/cache": False,
    "/var/lib/headroomXcache": False,
    "/mnt/cache": False,
    "/opt/models": False,
    "/var/lib/kubelet/pods": False,
}


@pytest.mark.parametrize(("path", "expected"), CACHES.items(), ids=CACHES)
def test_a_cache_is_directly_below_a_folder_that_the_administrator_names(path: str, expected: bool) -> None:
    """No deeper: what a slot may write it could make a link of, and a cache below would be wherever that leads."""
    assert WarmPools(cache_roots=("/var/lib/headroom", "/mnt/nvme0")).admits_cache(path) is expected


def test_without_a_folder_for_caches_none_of_the_node_is_one_and_by_default_only_those_of_headroom_are() -> None:
    assert not WarmPools(cache_roots=()).admits_cache("/var/lib/headroom/cache")
    assert WarmPools().admits_cache("/var/lib/headroom/cache")
    assert not WarmPools().admits_cache("/mnt/cache")


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/mnt/nvme/cache", "/mnt/nvme"),
        ("/mnt/nvme/cache/", "/mnt/nvme"),
        ("/data/models/deep/cache", "/data/models/deep"),
        ("/data", None),
        ("/opt/models", None),
        ("/var/lib/kubelet/pods", None),
        ("/var/lib/headroom/cache/deep", None),
        ("/mnt/.hidden", None),
    ],
)
def test_the_folder_that_would_admit_a_cache_is_named_where_it_may_be_added(path: str, root: str | None) -> None:
    assert WarmPools().root_for(path) == root
    assert root is None or WarmPools(cache_roots=("/var/lib/headroom", root)).admits_cache(path)


@pytest.mark.parametrize(
    ("roots", "words"),
    [
        (["/opt"], "'/opt' is a folder of the node's own; give a folder that holds nothing but caches"),
        (["/var/lib"], "is a folder of the node's own"),
        (["/etc/headroom"], "is a folder of the node's own"),
        (["/var/lib/containerd"], "is a folder of the node's own"),
        (["/mnt", "/mnt/nvme0"], "'/mnt/nvme0' lies in '/mnt', where caches are; give one of them"),
        (["/"], "should match pattern"),
        (["/mnt/"], "should match pattern"),
        (["/mnt/../etc"], "should match pattern"),
        (["mnt"], "should match pattern"),
        (["/mnt/a b"], "should match pattern"),
    ],
)
def test_no_folder_for_caches_is_the_nodes_own_or_lies_in_another(roots: list[str], words: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(words)):
        WarmPools.model_validate({"cache_roots": roots})


def test_warm_pools_are_off_by_default_and_have_a_namespace_of_their_own() -> None:
    settings = Settings()
    assert not settings.warm_pools.enabled
    assert settings.warm_pools.namespace not in {settings.namespace, "default"}


def test_a_shape_is_named_once_with_its_price() -> None:
    quarter = {"sku": "a100", "capacity_type": "spot", "sharing": "time-slicing", "parts": 4, "gpu_hour_price": 1.5}
    settings = Settings.model_validate({"shapes": {"a100-quarter": quarter, "h100": {"sku": "h100"}}})
    shape = settings.shapes["a100-quarter"]
    assert (shape.capacity_type, shape.sharing, shape.parts) == (CapacityType.SPOT, Sharing.TIME_SLICING, 4)
    assert settings.effective()["shapes"]["a100-quarter"]["gpu_hour_price"] == 1.5
    with pytest.raises(ValidationError, match="whole GPUs have 1 part, shared ones more"):
        Settings.model_validate({"shapes": {"odd": {"sku": "h100", "parts": 2}}})


@pytest.mark.parametrize("registry", ["https://images.example.com", "registry.example.com/", "*", ""])
def test_a_registry_is_a_host_and_a_path_and_no_url(registry: str) -> None:
    with pytest.raises(ValidationError):
        WarmPools(registries=(registry,))
