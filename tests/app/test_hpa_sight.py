"""Whether HPAs may have tolerances of their own here: from one that has them, or from the server's version."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.hpas import Hpas
from autoscaler.api.claims import Claim, TargetRef, Way
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.app.hpa_sight import AGAIN_S, Followed
from autoscaler.ports import Fault
from tests.kube.test_hpas import hpa

TOLERANT = {"scaleUp": {"tolerance": "0"}}


@dataclass
class Server:
    """An API server that says these things in turn, and a clock on which waiting is counted."""

    says: list[Any]
    waited_s: list[float] = field(default_factory=list)

    async def request(self, method: str, path: str, **_: Any) -> Answer:
        assert (method, path) == ("GET", "/version")
        said = self.says.pop(0)
        if isinstance(said, KubeError):
            raise said
        return Answer(200, said if isinstance(said, bytes) else json.dumps(said).encode(), {})

    def monotonic(self) -> float:
        return 0.0

    async def sleep_until(self, monotonic_s: float, wake: object = None) -> None:
        self.waited_s.append(monotonic_s)


def followed(hpas: Hpas | None = None) -> Followed:
    return Followed(SimpleNamespace(hpas=hpas or Hpas(), target=lambda ref: None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("major", "minor", "knows"),
    [("1", "36", True), ("1", "35", True), ("1", "35+", True), ("1", "34", False), ("2", "0", True), ("", "", False)],
    ids=["newer", "from", "a-vendors", "older", "much-newer", "unsaid"],
)
async def test_the_version_says_whether_the_feature_is_on_by_default(major: str, minor: str, knows: bool) -> None:
    sight, server = followed(), Server([{"major": major, "minor": minor, "gitVersion": "v"}])
    assert not sight.knows_tolerance()
    await sight.learn(server, server)  # type: ignore[arg-type]
    assert sight.knows_tolerance() is knows


async def test_a_server_that_does_not_answer_or_talks_nonsense_is_asked_again() -> None:
    out = KubeError(Fault.UNAVAILABLE, "GET /version: no connection")
    sight, server = followed(), Server([out, b"<html>", {"major": "1", "minor": "36"}])
    await sight.learn(server, server)  # type: ignore[arg-type]
    assert sight.knows_tolerance()
    assert server.waited_s == [AGAIN_S, AGAIN_S]


def test_an_hpa_that_kept_its_tolerance_is_proof_whatever_the_version() -> None:
    hpas = Hpas()
    hpas.note("prod/keda-hpa-chat", hpa(behavior=TOLERANT))
    assert followed(hpas).knows_tolerance()


def test_only_a_claim_of_kedas_has_an_hpa_to_preview() -> None:
    hpas = Hpas()
    hpas.note("prod/keda-hpa-chat", hpa())
    ref = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "web", "u")
    kedas = Claim(ref, ScalingPolicySpec(), Way.SCALED_OBJECT, None, 1, scaled_object="chat")
    assert followed(hpas).hpa(kedas) is not None
    assert followed(hpas).hpa(Claim(ref, ScalingPolicySpec(), Way.ANNOTATION, None, 1)) is None
