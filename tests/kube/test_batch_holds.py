"""When the policy that holds pods of JobSets to nodes is taken for in force: as it was written, and bound for all."""

from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.batch_holds import HOLDS, Binding, Policy, unheld
from tests.kube.places import places


def narrowed(**matches: Any) -> dict[str, Any]:
    """A change of what a policy is for."""
    return {"matchConstraints": places()["spec"]["matchConstraints"] | matches}


ONE_TEAM: Final = {"matchLabels": {"team": "a"}}
OTHER: Final = "it is not the one that this version comes with"
RULE: Final = places()["spec"]["matchConstraints"]["resourceRules"][0]
FILLED_IN: Final = narrowed(matchPolicy="Equivalent", namespaceSelector={}, resourceRules=[RULE | {"scope": "*"}])


@pytest.mark.parametrize(
    ("policy", "binding", "words"),
    [
        ({}, {}, ""),
        (FILLED_IN, {}, ""),
        ({}, {"matchResources": {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}}, ""),
        (narrowed(namespaceSelector=ONE_TEAM), {}, OTHER),
        (narrowed(excludeResourceRules=[RULE]), {}, OTHER),
        (narrowed(resourceRules=[RULE | {"resourceNames": ["a"]}]), {}, OTHER),
        ({"failurePolicy": "Ignore"}, {}, OTHER),
        ({"matchConditions": [{"name": "never", "expression": "false"}]}, {}, OTHER),
        ({"mutations": []}, {}, OTHER),
        ({}, {"matchResources": {"namespaceSelector": ONE_TEAM}}, "it is bound for some pods only"),
        ({}, {"paramRef": {"name": "p", "parameterNotFoundAction": "Allow"}}, "it is bound for some pods only"),
        ({}, {"policyName": "theirs"}, "it is not bound"),
    ],
    ids=[
        "as it is applied", "with what the server fills in", "bound with what the server fills in",
        "for some namespaces", "with exceptions", "for some names", "a failure lets pods pass", "on a condition",
        "that does nothing", "bound for some namespaces", "bound to parameters", "another one",
    ],
)  # fmt: skip
def test_the_policy_holds_pods_only_as_it_was_written_and_bound_for_all(
    policy: dict[str, Any], binding: dict[str, Any], words: str
) -> None:
    mine = msgspec.convert({"metadata": {"name": HOLDS}, "spec": places()["spec"] | policy}, Policy)
    bound = msgspec.convert({"spec": {"policyName": HOLDS} | binding}, Binding)
    assert unheld([mine], [bound]) == words
