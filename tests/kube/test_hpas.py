"""HPAs as the API server shows them, in the core's terms: which one is whose, and what its settings say."""

import json
from typing import Any

import msgspec
import pytest

from autoscaler.adapters.kube.hpas import Hpas, asking, scaled_to_zero
from autoscaler.adapters.kube.scaling import Hpa
from autoscaler.core.hpa.spec import DEFAULT_DOWN, DEFAULT_UP, Basis, Behavior, Metric, Policy, Rules, Select, Unit
from autoscaler.errors import InputError


def external(name: str = "s0-headroom-replicas", **target: str) -> dict[str, Any]:
    return {"type": "External", "external": {"metric": {"name": name}, "target": target or {"averageValue": "1"}}}


def hpa(name: str = "keda-hpa-chat", owner: str = "chat", namespace: str = "prod", **spec: Any) -> Hpa:
    given = {"maxReplicas": 12, "metrics": [external()]} | spec
    status = given.pop("status", {})
    return msgspec.json.decode(
        json.dumps({
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [
                {"kind": "ScaledObject", "name": owner, "controller": True},
            ]},
            "spec": given, "status": status,
        }),
        type=Hpa,
    )  # fmt: skip


def test_the_hpa_of_a_scaledobject_is_the_one_it_owns_whatever_its_name() -> None:
    known = Hpas()
    known.note("prod/my-own-name", hpa("my-own-name"))
    known.note("test/my-own-name", hpa("my-own-name", namespace="test"))
    found = known.of("prod", "chat")
    assert found is not None
    assert (found.metadata.namespace, found.metadata.name) == ("prod", "my-own-name")
    known.note("prod/my-own-name", None)
    assert known.of("prod", "chat") is None
    assert known.of("test", "chat") is not None


def test_an_old_hpa_that_a_list_shows_as_gone_last_takes_the_new_one_of_its_scaledobject_not_along() -> None:
    known = Hpas()
    known.note("prod/keda-hpa-chat", hpa())
    known.note("prod/my-own-name", hpa("my-own-name"))
    known.note("prod/keda-hpa-chat", None)
    found = known.of("prod", "chat")
    assert found is not None
    assert found.metadata.name == "my-own-name"
    known.note("prod/my-own-name", None)
    assert known.of("prod", "chat") is None


def test_an_hpa_that_is_nobodys_is_no_scaledobjects() -> None:
    known = Hpas()
    known.note("prod/web", Hpa())
    assert known.of("prod", "") is None


def test_without_a_behavior_there_is_none_and_the_minimum_is_one() -> None:
    asked = asking(hpa(), "headroom-replicas")
    assert asked is not None
    assert (asked.autoscaler.minimum, asked.autoscaler.maximum, asked.autoscaler.behavior) == (1, 12, None)
    assert asked.autoscaler.metrics == (Metric("s0-headroom-replicas", Basis.AVERAGE_VALUE, 1000),)
    assert asked.others == 0


def test_a_behavior_with_one_direction_has_the_other_by_default() -> None:
    up = {
        "selectPolicy": "Min",
        "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}],
        "tolerance": "50m",
    }
    asked = asking(hpa(behavior={"scaleUp": up}), "headroom-replicas")
    assert asked is not None
    paced = Rules((Policy(Unit.PERCENT, 10, 60),), Select.MIN, 0, 0.05)
    assert asked.autoscaler.behavior == Behavior(paced, DEFAULT_DOWN)
    partly = asking(hpa(behavior={"scaleDown": {"stabilizationWindowSeconds": 0}}), "headroom-replicas")
    assert partly is not None
    assert partly.autoscaler.behavior == Behavior(DEFAULT_UP, Rules(DEFAULT_DOWN.policies, Select.MAX, 0))


@pytest.mark.parametrize(
    ("metric", "target", "milli"),
    [
        ("s0-headroom-replicas", {"averageValue": "1"}, 1000),
        ("s12-headroom-replicas", {"averageValue": "100m"}, 100),
        ("s0-headroom-replicas", {"averageValue": "1k"}, 1_000_000),
        ("s0-headroom-replicas", {"averageValue": "0.1"}, 100),
        ("s0-headroom-demand", {"averageValue": "8"}, None),
        ("s0-headroom-replicas", {"averageValue": "0"}, None),
    ],
    ids=["one", "tenth", "thousand", "decimal", "another-metric", "no-target"],
)
def test_our_metric_is_found_under_kedas_index_with_its_target(
    metric: str, target: dict[str, str], milli: int | None
) -> None:
    asked = asking(hpa(metrics=[external(metric, **target)]), "headroom-replicas")
    found = None if asked is None else asked.autoscaler.metrics[0]
    assert (None if found is None else found.target_milli) == milli


def test_other_metrics_are_counted_and_ours_comes_first() -> None:
    more = [
        {"type": "Resource"},
        external("s1-prometheus", value="5"),
        external("s0-headroom-replicas", averageValue="1"),
    ]
    asked = asking(hpa(metrics=more), "headroom-replicas")
    assert asked is not None
    assert (asked.others, len(asked.autoscaler.metrics)) == (2, 1)


def test_a_composite_metric_of_kedas_formula_is_not_ours() -> None:
    assert asking(hpa(metrics=[external("s1-composite-metric", averageValue="1")]), "headroom-replicas") is None


def test_a_policy_of_a_kind_nobody_knows_yet_is_refused_by_name() -> None:
    odd = {"scaleUp": {"policies": [{"type": "Racks", "value": 1, "periodSeconds": 60}]}}
    with pytest.raises(InputError, match="Racks"):
        asking(hpa(behavior=odd), "headroom-replicas")


def test_that_a_cluster_knows_tolerances_is_seen_from_one_that_was_kept() -> None:
    known = Hpas()
    known.note("prod/a", hpa("a", behavior={"scaleUp": {"selectPolicy": "Max"}}))
    assert not known.tolerance_seen
    known.note("prod/b", hpa("b", behavior={"scaleUp": {"tolerance": "0"}}))
    assert known.tolerance_seen


def test_a_target_that_hpa_brought_to_zero_itself_says_so() -> None:
    assert not scaled_to_zero(hpa())
    assert scaled_to_zero(hpa(status={"conditions": [{"type": "ScaledToZero", "status": "True"}]}))
