"""The real HPA behind KEDA, evaluation by evaluation, against our preview of it.

HPA evaluates every 2 s here instead of every 15 s; windows and periods are seconds and no multiple of that, so that a
busy machine cannot push an event over the edge of one. KEDA itself polls once an hour: every pull is HPA's.
"""

import asyncio
import time
from typing import Any

import pytest

from tests.cluster.hpa import Watching
from tests.cluster.keda import Keda, scaled_object
from tests.cluster.manifests import deployment
from tests.cluster.processes import wait_for
from tests.cluster.scaler import Scaler

pytestmark = [pytest.mark.real, pytest.mark.needs("keda"), pytest.mark.timeout(300)]

WARY = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "policies": [
            {"type": "Pods", "value": 3, "periodSeconds": 5},
            {"type": "Percent", "value": 40, "periodSeconds": 5},
        ],
        "tolerance": "0.05",
    },
    "scaleDown": {
        "stabilizationWindowSeconds": 7,
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 5}],
    },
}
SLOW_BOTH_WAYS = {
    "scaleUp": {
        "stabilizationWindowSeconds": 7, "selectPolicy": "Min",
        "policies": [
            {"type": "Pods", "value": 6, "periodSeconds": 3}, {"type": "Percent", "value": 80, "periodSeconds": 9},
        ],
    },
    "scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Disabled"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("behavior", "script", "limits"),
    [
        (
            WARY, [(2, 4), (14, 16), (13, 4), (20, 6), (21, 6), (25, 8), (9, 22), (2, 16)],
            {"TOLERANCE", "UP_POLICIES", "DOWN_POLICIES", "DOWN_WINDOW", "MAX"},
        ),
        (SLOW_BOTH_WAYS, [(4, 6), (18, 26), (6, 8), (19, 10)], {"UP_POLICIES", "UP_WINDOW", "DOWN_DISABLED"}),
        (None, [(1, 4), (19, 14), (20, 6), (6, 8), (22, 4)], {"UP_POLICIES", "TOLERANCE", "DOWN_WINDOW"}),
    ],
    ids=["policies-windows-and-tolerance", "the-slower-policy-and-no-way-down", "no-behavior-at-all"],
)  # fmt: skip
def test_what_hpa_sets_is_what_was_previewed_at_every_evaluation(
    keda: Keda, namespace: str, behavior: dict[str, Any] | None, script: list[tuple[int, int]], limits: set[str]
) -> None:
    (first, _), *_ = script
    watching = Watching(keda.plane, namespace, "chat")
    with Scaler(watching) as scaler:
        following = asyncio.run_coroutine_threadsafe(watching.sight.follow(keda.plane, namespace), scaler.loop)
        scaler.say(namespace, "chat", first)
        keda.plane.apply(deployment(namespace, "chat", 8000, replicas=first, gpus=0))
        advanced = {} if behavior is None else {"horizontalPodAutoscalerConfig": {"behavior": behavior}}
        made = scaled_object(namespace, "chat", scaler.address, advanced=advanced)
        made["spec"] |= {"minReplicaCount": 1, "maxReplicaCount": 22, "pollingInterval": 3600}
        keda.plane.apply(made)
        watching.wait_followed()
        wait_for(lambda: len(watching.noted) >= 2, 40, "HPA to pull", 0.2)
        begun_s = time.time()
        for number, seconds in script:
            scaler.say(namespace, "chat", number, first)
            time.sleep(seconds)
        until_s = time.time() - 2.5
        following.cancel()
    pairs = watching.pairs(begun_s, until_s)
    assert len(pairs) >= sum(seconds for _, seconds in script) / 2 * 0.7
    missed = [(one, preview) for one, preview in pairs if preview is None or preview.replicas != one.replicas]
    assert missed == []
    assert limits <= {code for _, preview in pairs for code in (preview.limits if preview else ())}
    assert len({one.replicas for one, _ in pairs}) >= 4
