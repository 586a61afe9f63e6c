"""What a ScalingPolicy's status says, as the API server takes it."""

from autoscaler.api.modes import Mode
from autoscaler.api.schema import custom_resource
from autoscaler.api.status import Condition, ConditionType, Overload, ScalingPolicyStatus, Truth, Warmup

NOON_S = 1795863600.0
"""2026-11-28T11:00:00Z."""

READY = Condition(
    type=ConditionType.READY.value,
    status=Truth.TRUE,
    observed_generation=3,
    last_transition_time_s=NOON_S,
    reason="Scaled",
    message="It scales.",
)


def test_a_full_status_is_in_camel_case_with_dates() -> None:
    status = ScalingPolicyStatus(
        observed_generation=3,
        mode=Mode.ACTIVE,
        desired_replicas=12,
        ready_replicas=9,
        reason="BACKLOG",
        text="The queue needs it.",
        last_scale_time_s=NOON_S + 0.9,
        warmup=Warmup(p50_s=180.5, p90_s=240, samples=14),
        overload=Overload(
            deficit_replicas=3, admissible_rps=40.5, shed_ratio=0.25, retry_after_s=30, expires_at_s=NOON_S + 60
        ),
        conditions=(READY,),
    )
    assert custom_resource(status) == {
        "observedGeneration": 3,
        "mode": "Active",
        "desiredReplicas": 12,
        "readyReplicas": 9,
        "reason": "BACKLOG",
        "text": "The queue needs it.",
        "lastScaleTime": "2026-11-28T11:00:00Z",
        "warmup": {"p50S": 180.5, "p90S": 240.0, "samples": 14},
        "overload": {
            "deficitReplicas": 3,
            "admissibleRps": 40.5,
            "shedRatio": 0.25,
            "retryAfterS": 30.0,
            "expiresAt": "2026-11-28T11:01:00Z",
        },
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-11-28T11:00:00Z",
                "reason": "Scaled",
                "message": "It scales.",
            }
        ],
    }


def test_what_is_unknown_is_left_out_and_zero_is_not() -> None:
    assert custom_resource(ScalingPolicyStatus(desired_replicas=0)) == {"desiredReplicas": 0, "conditions": []}


def test_a_text_that_is_too_long_is_cut_rather_than_losing_the_whole_status() -> None:
    status = ScalingPolicyStatus(reason="R" * 500, text="t" * 5000, conditions=(READY,))
    assert status.reason is not None
    assert len(status.reason) == 128
    assert status.text == "t" * 4095 + "…"
