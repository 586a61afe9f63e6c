"""What of a policy comes to nothing here is said, with the remedy, and nothing else is."""

import pytest

from autoscaler.api.annotations import read_annotations
from autoscaler.api.claims import Claim, TargetRef, Way
from autoscaler.app.remarks import remarks, short_grace
from autoscaler.settings.model import Settings
from autoscaler.settings.parts import Gateway, Prometheus

REF = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "chat", "t1")
SETTINGS = Settings(
    gateways={"edge": Gateway(namespace="edge", selector="app=epp", port=9090)},
    prometheus={"main": Prometheus(url="http://prometheus:9090")},
)
ZERO = "minReplicas is 0, and nothing would tell of work at zero: it stays at 1; name a gateway, or ask for 1"


@pytest.mark.parametrize(
    ("given", "way", "expected"),
    [
        ({}, Way.ANNOTATION, []),
        ({"min-replicas": "0"}, Way.ANNOTATION, [ZERO]),
        ({"min-replicas": "0"}, Way.SCALED_OBJECT, []),
        ({"min-replicas": "0", "gateway": "edge"}, Way.ANNOTATION, []),
        ({"prometheus": "main"}, Way.ANNOTATION, []),
        (
            {"min-replicas": "0", "gateway": "egde"},
            Way.ANNOTATION,
            ["gateway egde: the settings know edge, so nothing is asked there; have it added to them", ZERO],
        ),
        (
            {"prometheus": "other"},
            Way.ANNOTATION,
            ["prometheus other: the settings know main, so nothing is asked there; have it added to them"],
        ),
    ],
    ids=["nothing", "zero", "zero by KEDA", "zero with a gateway", "a known endpoint", "a misspelt gateway", "no such"],
)
def test_what_comes_to_nothing_is_said(given: dict[str, str], way: Way, expected: list[str]) -> None:
    spec = read_annotations({"headroom.dev/scale": "true"} | {f"headroom.dev/{key}": v for key, v in given.items()})
    assert spec is not None
    assert list(remarks(Claim(REF, spec, way, None, 1), SETTINGS)) == expected


def test_where_the_settings_know_none_that_is_said() -> None:
    spec = read_annotations({"headroom.dev/scale": "true", "headroom.dev/gateway": "edge"})
    assert spec is not None
    (said,) = remarks(Claim(REF, spec, Way.ANNOTATION, None, 1), Settings())
    assert said.startswith("gateway edge: the settings know none")


def test_a_budget_of_the_cluster_says_where_it_does_not_see_others() -> None:
    spec = read_annotations({"headroom.dev/scale": "true"})
    assert spec is not None
    budgets = {"cluster_gpus": 64}
    claim = Claim(REF, spec, Way.ANNOTATION, None, 1)
    assert remarks(claim, Settings(budgets=budgets)) == ()  # type: ignore[arg-type]  # as a file gives them
    (said,) = remarks(claim, Settings(budgets=budgets, watch_namespaces=("prod", "dev")))  # type: ignore[arg-type]
    assert said.endswith("only in the namespaces that are watched: prod, dev")


@pytest.mark.parametrize(
    ("grace_s", "long_s", "said"),
    [(None, 29.0, False), (None, 31.2, True), (60, 59.0, False), (60, 75.0, True), (0, 0.4, True), (0, None, False)],
    ids=["Kubernetes' own is enough", "and is not", "more is given", "and not enough", "none is given", "not known"],
)
def test_a_grace_period_shorter_than_requests_is_told(grace_s: int | None, long_s: float | None, said: bool) -> None:
    told = short_grace(grace_s, long_s)
    assert bool(told) is said
    if long_s == 75.0:
        assert told[0].startswith("a pod that goes has 60 s to end its requests, and 1 in 100 takes 75 s or longer:")
        assert told[0].endswith("set terminationGracePeriodSeconds to more than 75")
