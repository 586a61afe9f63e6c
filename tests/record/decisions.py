"""Builders of decisions: a scale-up that three steps made, and one step of any reason with the core's own evidence."""

from autoscaler.core.reasons import Reason
from autoscaler.core.scale import bounds
from autoscaler.core.types import Decision, Evidence, Step, Verdict

AGES: Evidence = (("arrivals_age_s", 0.0), ("queue_age_s", 5.0), ("in_flight_age_s", 45.0))
REPLICA: Evidence = (
    ("load_rps", 12.0), ("queue", 30.0), ("replica_rps", 1.4), ("replica_limit", "token_time"),
    ("warmup_s", 180.0), ("warmup_samples", 4),
)  # fmt: skip

FORECAST = Step(
    "demand", 6, 14, Reason.FORECAST,
    (("forecast_rps", 19.34), ("median_rps", 15.0), ("level_ratio", 0.97), ("model", "trees"),
     ("budget_burn_ratio", 0.4), *REPLICA, *AGES),
)  # fmt: skip
CAPPED = Step("bound", 14, 12, Reason.BURST_CEILING, (("ceiling_rps", 16.9), ("factor_ratio", 1.3)))
MOST = Step("bound", 12, 9, Reason.MAX, (("max_replicas", 9),))


def make_decision(
    *trace: Step, now_s: float = 8070.0, reason: Reason | None = None, workload: str = "prod/chat-7b"
) -> Decision:
    steps = trace or (FORECAST, CAPPED, MOST)
    seen, replicas = steps[0].before, steps[-1].after
    verdict = Verdict.HOLD if seen == replicas else Verdict.SCALE
    return Decision(workload, now_s, seen, replicas, verdict, reason or steps[-1].reason, steps, next_due_s=now_s + 5.0)


PER_REASON: dict[Reason, tuple[Step, str]] = {
    Reason.DEMAND_NOW: (
        Step("demand", 6, 9, Reason.DEMAND_NOW, (*REPLICA, *AGES)),
        (
            "9 needed for the present load of 12 requests/s, 30 waiting; one replica carries 1.4 requests/s, "
            "limited by the time per output token"
        ),
    ),
    Reason.CONCURRENCY: (
        Step("demand", 6, 9, Reason.CONCURRENCY, (("in_flight", 70.0), ("slots_per_replica", 8.0), *REPLICA, *AGES)),
        "9 needed to hold the requests in flight: 70 at 8 a replica",
    ),
    Reason.MEMORY: (
        Step("demand", 6, 9, Reason.MEMORY, (("kv_used_replicas", 8.2), *REPLICA, *AGES)),
        "9 needed for KV memory: the requests in flight fill 8.2 replicas' caches",
    ),
    Reason.FORECAST: (
        FORECAST,
        (
            "14 needed by the time a replica ordered now can serve, 3 min from now: the forecast reaches "
            "19.3 requests/s (boosted trees, held in 97 % of cases), the load is 12 requests/s; one replica carries "
            "1.4 requests/s, limited by the time per output token"
        ),
    ),
    Reason.BACKLOG: (
        Step(
            "demand", 6, 20, Reason.BACKLOG, (("backlog", 1234.0), ("starting", 3), ("climb_rps", 4.0), *REPLICA, *AGES)
        ),
        (
            "20 needed to clear the queue: 30 waiting, 1,234 left when a replica ordered now can serve, 3 min from "
            "now, with 3 starting, and the load goes on climbing by 4 requests/s until then; one replica carries "
            "1.4 requests/s, limited by the time per output token"
        ),
    ),
    Reason.QUEUE_UNCALIBRATED: (
        Step(
            "demand",
            2,
            4,
            Reason.QUEUE_UNCALIBRATED,
            (
                ("in_flight", 16.0),
                ("starting", 1),
                ("unread", 1),
                ("load_rps", 3.0),
                ("queue", 40.0),
                ("held_at_once", 256.0),
                ("replica_rps", None),
            ),
        ),
        (
            "4 asked for: requests wait and what one replica carries is not known yet; 40 waiting, 16 in flight, "
            "1 starting, 1 ready and not read yet, the load is 3 requests/s; no replica is ready to be watched, and an "
            "engine seldom holds more than 256 at once"
        ),
    ),
    Reason.QUEUE_UNSEEN: (
        Step(
            "demand",
            3,
            6,
            Reason.QUEUE_UNSEEN,
            (("full_s", 40.0), ("in_flight", 24.0), ("starting", 0), ("load_rps", None), ("queue_age_s", 60.0)),
        ),
        (
            "6 asked for, as a line may wait that nobody sees: every replica stays full, for 40 s now, 24 in flight, 0 "
            "starting; the gateway told the queue 60 s ago"
        ),
    ),
    Reason.CONCURRENCY_FLOOR: (
        Step("demand", 6, 6, Reason.CONCURRENCY_FLOOR, (*REPLICA, *AGES)),
        (
            "6 kept: at every moment of the last hour that many were needed; the load is 12 requests/s; one replica "
            "carries 1.4 requests/s, limited by the time per output token"
        ),
    ),
    Reason.WAKE: (
        Step("demand", 0, 3, Reason.WAKE, (("backlog", 20.0), ("starting", 0), *REPLICA, *AGES)),
        "3 to wake up: work waits and nothing serves it; 30 waiting, warm-up 3 min",
    ),
    Reason.WEDGED: (
        Step("observe", 6, 6, Reason.WEDGED, (("wedged_pods", 2),)),
        "pods hold requests and make no progress: broken, not demand; restart them; 2 of them",
    ),
    Reason.LATE_START: (
        Step("capacity", 6, 8, Reason.LATE_START, (("late_starts", 2),)),
        "8, not 6: starts are late beyond their measured warm-up and are ordered again; 2 late",
    ),
    Reason.EVENT_FLOOR: (
        Step("bound", 6, 12, Reason.EVENT_FLOOR, (("event_replicas", 12), ("event_left_s", 5400.0))),
        "12, not 6: a known event asks for at least 12, for 90 min more",
    ),
    Reason.EVENT_CEILING: (
        Step("bound", 9, 5, Reason.EVENT_CEILING, (("event_replicas", 4), ("event_left_s", 600.0))),
        "5, not 9: a known event allows no more than 4, reached step by step, for 10 min more",
    ),
    Reason.IDLE: (
        Step("demand", 6, 0, Reason.IDLE, (("idle_s", 900.0),)),
        "0: no work for longer than the residency limit, the GPUs are released; idle for 15 min",
    ),
    Reason.NOISE: (
        Step(
            "gate",
            9,
            6,
            Reason.NOISE,
            (("load_rps", 12.0), ("age_s", 15.0), ("outlives_ratio", 0.04), ("warmup_s", 180.0)),
        ),
        (
            "6, not 9: the excess is expected to end before a new replica could serve; it has lasted 15 s and "
            "outlives a warm-up of 3 min in 4 % of cases"
        ),
    ),
    Reason.BURST_CEILING: (
        CAPPED,
        "12, not 14: capped near the highest demand of the last 24 h, at 16.9 requests/s (130 % of it)",
    ),
    Reason.RATE_UP: (
        Step("bound", 400, 41, Reason.RATE_UP, (("lowest_replicas", 1), ("within_s", 60.0))),
        (
            f"41, not 400: growth is limited to {bounds.RATE_UP_FACTOR:g} times in a minute, or {bounds.RATE_UP_ADD} "
            f"more in {bounds.RATE_UP_ADD_S:g} s; 1 stood within the last 60 s"
        ),
    ),
    Reason.RATE_DOWN: (
        Step("bound", 0, 45, Reason.RATE_DOWN, (("highest_replicas", 90), ("within_s", 60.0))),
        "45, not 0: shrinking is limited to half in a minute, or one; 90 stood within the last 60 s",
    ),
    Reason.STABILISATION: (
        Step("bound", 4, 6, Reason.STABILISATION, (("held_s", 120.0), ("warmup_s", 0.0))),
        "6 held, not 4: the need was higher a moment ago, within the last 2 min",
    ),
    Reason.DEADBAND: (
        Step("bound", 5, 6, Reason.DEADBAND, (("exact_replicas", 4.9), ("shrinks_at_replicas", 4.2))),
        (
            "6 held, not 5: the change is too small to act on; the need is 4.9 replicas, and from 4.2 on one is given "
            "away"
        ),
    ),
    Reason.BACK_OFF: (
        Step("bound", 9, 6, Reason.BACK_OFF, (("failures", 4), ("remaining_s", 95.0), ("died_at_work", 3))),
        (
            "6, not 9: starts keep failing, no new orders; 4 failed in a row, 3 of them by dying of their first "
            "requests, 95 s left to wait"
        ),
    ),
    Reason.STALE: (
        Step("bound", 4, 6, Reason.STALE, AGES),
        "6 held, not 4: readings are missing or too old, nothing shrinks; oldest: in flight 45 s ago",
    ),
    Reason.LOADING: (
        Step("bound", 0, 1, Reason.LOADING, (("starting", 1),)),
        "1 held, not 0: a replica is still loading its model; 1 starting",
    ),
    Reason.ZERO_REFUSED: (
        Step("bound", 0, 1, Reason.ZERO_REFUSED),
        "1 held, not 0: no signal lives at zero to wake it again; connect a gateway's queue",
    ),
    Reason.FLOOR: (
        Step("bound", 1, 3, Reason.FLOOR, (("min_replicas", 3),)),
        "3, not 1: the policy's minimum is 3",
    ),
    Reason.MAX: (MOST, "9, not 12: the policy's maximum is 9"),
    Reason.QUOTA: (
        Step("bound", 12, 10, Reason.QUOTA, (("quota_replicas", 4),)),
        "10, not 12: the namespace's quota is 4, reached step by step",
    ),
    Reason.BUDGET: (
        Step("bound", 12, 7, Reason.BUDGET, (("budget_replicas", 7), ("budget_words", "namespace prod has 24 GPUs"))),
        "7, not 12: the GPU budget is 7: namespace prod has 24 GPUs",
    ),
    Reason.INFEASIBLE: (
        Step("bound", 9, 6, Reason.INFEASIBLE, (("floor_replicas", 8), ("ceiling_replicas", 5))),
        (
            "6, not 9: floors and ceilings contradict each other, mend the policy; at least 8 are asked for and at "
            "most 5 allowed"
        ),
    ),
    Reason.STEADY: (Step("decide", 6, 6, Reason.STEADY), "6 is right: capacity and need agree"),
    Reason.QUEUE_WATCHED: (
        Step(
            "demand",
            2,
            2,
            Reason.QUEUE_WATCHED,
            (
                ("queue", 60.0),
                ("in_flight", 16.0),
                ("starting", 1),
                ("unread", 1),
                ("uncounted", 1),
                ("load_rps", 12.0),
                ("done_rps", 10.0),
                ("cleared_s", 6.0),
                ("slack_s", 10.0),
                ("because", "enough"),
                *AGES,
            ),
        ),
        (
            "2 held: requests wait and what one replica carries is not known yet; 60 waiting, 16 in flight, "
            "1 starting, 1 ready and not read yet, 1 ordered within 30 s and not counted yet, the load is "
            "12 requests/s; at 10 requests/s done the last in line is served within 6 s, and the objective allows a "
            "wait of 10 s; by what those at work hold and do, what stands and starts is enough to clear it"
        ),
    ),
    Reason.NO_SIGNAL: (
        Step("demand", 6, 6, Reason.NO_SIGNAL, AGES),
        "6 held: too little is known to change it; last heard: arrivals 0 s ago, queue 5 s ago, in flight 45 s ago",
    ),
    Reason.OUTDATED: (
        Step("observe", 6, 6, Reason.OUTDATED, (("now_s", 8060.0),)),
        "6 held: this reading is older than the last one and was ignored; it is from second 8060",
    ),
}
"""Every reason with a step as the core writes it, and the sentence a person reads."""
