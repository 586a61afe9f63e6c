"""What one replica takes, and how many a namespace's limits leave room for."""

import msgspec
import pytest

from autoscaler.adapters.kube.limits import Limit, LimitRange, LimitRangeSpec, Quota, QuotaStatus
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pods import Container, PodSpec, Port, Resources
from autoscaler.adapters.kube.scaling import Target
from autoscaler.adapters.kube.selectors import matches
from autoscaler.adapters.kube.shapes import gpus, metrics_port, quota_replicas
from autoscaler.errors import InputError

GPU = "nvidia.com/gpu"


def replica(amount: str = "2", *ports: Port) -> PodSpec:
    engine = Container("engine", ports, Resources({GPU: amount}, {"cpu": "500m", "memory": "4Gi"}))
    return PodSpec(containers=(engine, Container("sidecar")))


def quota(hard: dict[str, str], used: dict[str, str]) -> Quota:
    return Quota(Meta("q", "prod"), status=QuotaStatus(dict(hard), dict(used)))


def test_gpus_are_counted_over_all_containers_and_names() -> None:
    spec = PodSpec(containers=(*replica("2").containers, Container("b", resources=Resources({"amd.com/gpu": "1"}))))
    assert gpus((spec,), (GPU, "amd.com/gpu")) == 3
    assert gpus((PodSpec(),), (GPU,)) == 0


GROUP = (
    '{"spec":{"replicas":3,"leaderWorkerTemplate":{"size":%s,%s"workerTemplate":{"spec":{"containers":['
    '{"name":"w","resources":{"limits":{"nvidia.com/gpu":"8"}}}]}}}}}'
)
LEADER = '"leaderTemplate":{"spec":{"containers":[{"name":"l","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}},'


@pytest.mark.parametrize(
    ("size", "leader", "held"),
    [
        pytest.param("4", LEADER, 25, id="a leader with one GPU and three workers with eight"),
        pytest.param("4", "", 32, id="a leader like its workers"),
        pytest.param("1", LEADER, 1, id="a leader alone"),
        pytest.param("null", "", 8, id="a group that does not say its size"),
        pytest.param("1000000000", "", 1024, id="a size that is a slip: no more than a policy may say"),
    ],
)
def test_a_replica_of_a_leader_worker_set_is_its_whole_group(size: str, leader: str, held: int) -> None:
    shape = msgspec.json.decode(GROUP % (size, leader), type=Target).spec.shape
    assert shape is not None
    assert gpus(shape, (GPU,)) == held


def test_a_quota_counts_every_pod_of_a_group() -> None:
    shape = msgspec.json.decode(GROUP % ("4", LEADER), type=Target).spec.shape
    assert shape is not None
    assert quota_replicas(shape, 1, [quota({f"requests.{GPU}": "100"}, {f"requests.{GPU}": "25"})], []) == 4
    assert quota_replicas(shape, 1, [quota({"pods": "10"}, {"pods": "4"})], []) == 2


@pytest.mark.parametrize(
    ("ports", "found"),
    [
        pytest.param((Port("api", 1), Port("http", 2), Port("metrics", 3)), 3, id="the one named metrics"),
        pytest.param((Port("api", 1), Port("http", 2)), 2, id="else http"),
        pytest.param((Port("api", 1), Port("", 2)), 1, id="else the first"),
        pytest.param((), None, id="none at all"),
    ],
)
def test_the_metrics_port(ports: tuple[Port, ...], found: int | None) -> None:
    assert metrics_port(replica("1", *ports)) == found


@pytest.mark.parametrize(
    ("hard", "used", "existing", "room"),
    [
        pytest.param({f"requests.{GPU}": "16"}, {f"requests.{GPU}": "10"}, 4, 7, id="3 more of 2 GPUs fit into 6"),
        pytest.param(
            {f"requests.{GPU}": "16"}, {f"requests.{GPU}": "17"}, 4, 4, id="an exceeded quota takes none away"
        ),
        pytest.param({"pods": "10"}, {"pods": "9"}, 4, 5, id="pods"),
        pytest.param({"requests.cpu": "4"}, {"requests.cpu": "3"}, 1, 3, id="half a CPU each"),
        pytest.param({"memory": "40Gi"}, {"memory": "30Gi"}, 1, 3, id="memory by its short name"),
        pytest.param({"count/services": "1"}, {"count/services": "1"}, 4, None, id="a quota of something else"),
        pytest.param({"pods": "lots"}, {}, 4, None, id="a quota that cannot be read bounds nothing"),
    ],
)
def test_a_quota_leaves_room_for(hard: dict[str, str], used: dict[str, str], existing: int, room: int | None) -> None:
    assert quota_replicas((replica(),), existing, [quota(hard, used)], []) == room


SCOPED = """{"metadata": {"name": "q", "namespace": "prod"}, "spec": {"hard": {"pods": "10"}, %s},
             "status": {"hard": {"pods": "10"}, "used": {"pods": "10"}}}"""
OF_LOW = '"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "%s", "values": ["low"]}]}'


@pytest.mark.parametrize(
    ("scope", "priority_class", "room"),
    [
        pytest.param(OF_LOW % "In", "low", 4, id="full for pods of its class"),
        pytest.param(OF_LOW % "In", "high", None, id="full for pods of another class"),
        pytest.param(OF_LOW % "In", "", None, id="full for a class, and the pods may be given any"),
        pytest.param(OF_LOW % "NotIn", "high", 4, id="full for all classes but one"),
        pytest.param(OF_LOW % "NotIn", "low", None, id="full for all others"),
        pytest.param('"scopes": ["PriorityClass"]', "high", 4, id="full for all that name a class"),
        pytest.param('"scopes": ["Terminating"]', "high", None, id="full for pods that end by a deadline"),
        pytest.param('"scopes": ["NotTerminating"]', "high", 4, id="full for pods that do not"),
        pytest.param('"scopes": ["BestEffort"]', "high", None, id="full for pods that ask for nothing"),
        pytest.param('"scopes": ["NotBestEffort", "NotTerminating"]', "high", 4, id="full for those that serve"),
        pytest.param('"scopes": ["CrossNamespacePodAffinity"]', "high", None, id="full for what is not read here"),
    ],
)
def test_a_quota_of_some_pods_bounds_no_others(scope: str, priority_class: str, room: int | None) -> None:
    spec = PodSpec(containers=replica().containers, priority_class_name=priority_class)
    full = msgspec.json.decode(SCOPED % scope, type=Quota)
    assert quota_replicas((spec,), 4, [full], []) == room


def test_the_tightest_of_several_quotas_counts() -> None:
    wide, tight = quota({"pods": "100"}, {"pods": "4"}), quota({f"requests.{GPU}": "10"}, {f"requests.{GPU}": "8"})
    assert quota_replicas((replica(),), 4, [wide, tight], []) == 5


@pytest.mark.parametrize(("most", "room"), [("1", 4), ("2", None)])
def test_a_limit_range_that_refuses_the_shape_leaves_what_is_there(most: str, room: int | None) -> None:
    found = LimitRange(Meta("l", "prod"), LimitRangeSpec((Limit("Container", max={GPU: most}),)))
    assert quota_replicas((replica(),), 4, [], [found]) == room


@pytest.mark.parametrize(
    ("selector", "match"),
    [
        ("app=gw", True),
        ("app==gw", True),
        ("app=gw,tier!=test", True),
        ("app", True),
        ("!zone", True),
        ("app=other", False),
        ("app!=gw", False),
        ("zone", False),
        ("!app", False),
    ],
)
def test_a_selector_matches_as_kubectl_reads_it(selector: str, match: bool) -> None:
    assert matches(selector, {"app": "gw", "tier": "prod"}) is match


@pytest.mark.parametrize("selector", ["app in (a,b)", "", "app=a=b", "!app=a"])
def test_a_selector_that_cannot_be_read_is_refused(selector: str) -> None:
    with pytest.raises(InputError, match="label selector"):
        matches(selector, {})


@pytest.mark.parametrize("amount", ["1e308", "-8", "nonsense"])
def test_amounts_that_only_a_custom_kind_lets_through_break_nothing(amount: str) -> None:
    spec = PodSpec(containers=replica(amount).containers * 2)
    assert 0 <= gpus((spec,), (GPU,)) <= 1024
    assert quota_replicas((spec,), 4, [quota({f"requests.{GPU}": "16"}, {f"requests.{GPU}": "10"})], []) in {4, None}
    tiny = replica("1n")
    assert quota_replicas((tiny,), 4, [quota({f"requests.{GPU}": "1e308"}, {f"requests.{GPU}": "0"})], []) == 1_000_004
