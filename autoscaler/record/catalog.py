"""The catalogue of what decisions carry: every figure of the evidence with its unit, every reason with its sentence.

A figure's name ends in its unit (`_s`, `_rps`, `_ratio`); without one it is a count or a word. A sentence is a row of
pieces: the first says what happened, each later one is left out when a figure in its braces is not known. `before` and
`after` are the step's own counts; `pace` is known while a lowered limit is not reached yet. Names and codes are read by
dashboards and stand in old audit files: renaming one is a breaking change.
"""

from types import MappingProxyType
from typing import Final

from autoscaler.core.reasons import Reason
from autoscaler.core.scale.uncalibrated import HOLDS

FIGURES: Final = MappingProxyType(
    {
        "load_rps": "present load",
        "queue": "requests waiting",
        "backlog": "requests left waiting when a new replica can serve",
        "climb_rps": "growth of the load expected until a new replica can serve",
        "in_flight": "requests being served",
        "slots_per_replica": "requests one replica holds at once",
        "kv_used_replicas": "KV caches in use, in replicas",
        "replica_rps": "one replica carries",
        "replica_limit": "what limits a replica",
        "forecast_rps": "forecast, upper bound",
        "median_rps": "forecast, middle",
        "level_ratio": "share of the upper bounds meant to hold",
        "model": "model",
        "budget_burn_ratio": "objective's budget in use",
        "ceiling_rps": "burst ceiling",
        "factor_ratio": "ceiling over the highest demand of 24 h",
        "outlives_ratio": "chance that it outlives a warm-up",
        "age_s": "excess has lasted",
        "idle_s": "without work for",
        "warmup_s": "warm-up",
        "held_s": "held through lower need for",
        "exact_replicas": "need, in replicas",
        "shrinks_at_replicas": "need from which on one is given away",
        "warmup_samples": "measured warm-ups",
        "starting": "replicas starting",
        "held_at_once": "requests an engine holds at once, if it tells nothing",
        "unread": "ready replicas not read yet",
        "uncounted": "ready replicas that do not count yet",
        "done_rps": "requests done",
        "cleared_s": "the last in line is served within",
        "slack_s": "wait that the objective allows",
        "because": "why no more are asked for",
        "full_s": "all replicas full for",
        "late_starts": "late starts",
        "wedged_pods": "pods without progress",
        "failures": "failed starts in a row",
        "died_at_work": "failed starts that died of their first requests",
        "remaining_s": "back-off left",
        "min_replicas": "policy's minimum",
        "max_replicas": "policy's maximum",
        "quota_replicas": "quota",
        "budget_replicas": "GPU budget",
        "budget_words": "who has the GPUs",
        "lowest_replicas": "least count of the last minute",
        "highest_replicas": "highest count of the last minute",
        "within_s": "the minute that a pace is measured over",
        "event_replicas": "known event's count",
        "event_left_s": "event lasts for",
        "floor_replicas": "highest floor",
        "ceiling_replicas": "lowest ceiling",
        "now_s": "time of the reading",
    }
)
"""Name in the evidence -> what a person calls it. `<signal>_age_s`, the age of a reading, is one per signal."""

WORDS: Final = MappingProxyType(
    {
        "last": "last value",
        "level": "smoothed level",
        "holt": "damped trend",
        "ridge": "ridge regression",
        "trees": "boosted trees",
        "peak": "peak of the last hour",
        "recurring": "bursts that come back",
        "unknown": "not measured yet",
        "proven": "little more than it was seen to serve",
        "throughput": "its throughput under a queue",
        "token_time": "the time per output token",
        "memory": "its KV memory",
        "enough": "by what those at work hold and do, what stands and starts is enough to clear it",
        "seen_once": "it was seen once, and the next look tells whether it stands",
        "gone_at_once": "so few are served within a second, and say nothing of the replicas",
        "once_a_tick": "more were asked for within this tick, and the next one tells whether these are enough",
        "within_a_second": "looks within a second count as one",
        "nothing_served": (
            "nothing is in service and nothing was done, so that nobody knows how many it needs; while no replica is "
            f"ready, one is asked for each {HOLDS:.0f} that wait; to begin with more, raise the policy's minimum, or "
            "let an event of it ask for a floor"
        ),
        "queue_alone": "nothing else is known, and more are asked for when the last order shows in it",
    }
)
"""The words that `model`, `replica_limit` and `because` may hold, as a person reads them."""

_REPLICA = "; one replica carries {replica_rps}, limited by {replica_limit}"
_LEAD = ", {warmup_s} from now"
_PACE = ", reached {pace}"

SENTENCES: Final = MappingProxyType(
    {
        Reason.DEMAND_NOW: (
            "{after} needed for the present load",
            " of {load_rps}",
            ", {queue} waiting",
            _REPLICA,
        ),
        Reason.CONCURRENCY: (
            "{after} needed to hold the requests in flight",
            ": {in_flight} at {slots_per_replica} a replica",
        ),
        Reason.MEMORY: (
            "{after} needed for KV memory",
            ": the requests in flight fill {kv_used_replicas} replicas' caches",
        ),
        Reason.FORECAST: (
            "{after} needed by the time a replica ordered now can serve",
            _LEAD,
            ": the forecast reaches {forecast_rps}",
            " ({model}, held in {level_ratio} of cases)",
            ", the load is {load_rps}",
            _REPLICA,
        ),
        Reason.BACKLOG: (
            "{after} needed to clear the queue",
            ": {queue} waiting",
            ", {backlog} left when a replica ordered now can serve",
            _LEAD,
            ", with {starting} starting",
            ", and the load goes on climbing by {climb_rps} until then",
            _REPLICA,
        ),
        Reason.QUEUE_UNCALIBRATED: (
            "{after} asked for: requests wait and what one replica carries is not known yet",
            "; {queue} waiting",
            ", {in_flight} in flight",
            ", {starting} starting",
            ", {unread} ready and not read yet",
            ", the load is {load_rps}",
            "; no replica is ready to be watched, and an engine seldom holds more than {held_at_once} at once",
        ),
        Reason.QUEUE_UNSEEN: (
            "{after} asked for, as a line may wait that nobody sees: every replica stays full",
            ", for {full_s} now",
            ", {in_flight} in flight",
            ", {starting} starting",
            "; the gateway told the queue {queue_age_s} ago",
        ),
        Reason.CONCURRENCY_FLOOR: (
            "{after} kept: at every moment of the last hour that many were needed",
            "; the load is {load_rps}",
            _REPLICA,
        ),
        Reason.WAKE: (
            "{after} to wake up: work waits and nothing serves it",
            "; {queue} waiting",
            ", warm-up {warmup_s}",
        ),
        Reason.LATE_START: (
            "{after}, not {before}: starts are late beyond their measured warm-up and are ordered again",
            "; {late_starts} late",
        ),
        Reason.EVENT_FLOOR: (
            "{after}, not {before}: a known event asks for at least {after}",
            ", for {event_left_s} more",
        ),
        Reason.EVENT_CEILING: (
            "{after}, not {before}: a known event allows no more",
            " than {event_replicas}",
            _PACE,
            ", for {event_left_s} more",
        ),
        Reason.IDLE: (
            "{after}: no work for longer than the residency limit, the GPUs are released",
            "; idle for {idle_s}",
        ),
        Reason.NOISE: (
            "{after}, not {before}: the excess is expected to end before a new replica could serve",
            "; it has lasted {age_s}",
            " and outlives a warm-up of {warmup_s} in {outlives_ratio} of cases",
        ),
        Reason.BURST_CEILING: (
            "{after}, not {before}: capped near the highest demand of the last 24 h",
            ", at {ceiling_rps}",
            " ({factor_ratio} of it)",
        ),
        Reason.RATE_UP: (
            "{after}, not {before}: growth is limited to 16 times in a minute, or 40 more in 15 s",
            "; {lowest_replicas} stood within the last {within_s}",
        ),
        Reason.RATE_DOWN: (
            "{after}, not {before}: shrinking is limited to half in a minute, or one",
            "; {highest_replicas} stood within the last {within_s}",
        ),
        Reason.STABILISATION: (
            "{after} held, not {before}: the need was higher a moment ago",
            ", within the last {held_s}",
        ),
        Reason.DEADBAND: (
            "{after} held, not {before}: the change is too small to act on",
            "; the need is {exact_replicas} replicas, and from {shrinks_at_replicas} on one is given away",
        ),
        Reason.BACK_OFF: (
            "{after}, not {before}: starts keep failing, no new orders",
            "; {failures} failed in a row",
            ", {died_at_work} of them by dying of their first requests",
            ", {remaining_s} left to wait",
        ),
        Reason.STALE: (
            "{after} held, not {before}: readings are missing or too old, nothing shrinks",
            "; oldest: {oldest}",
        ),
        Reason.WEDGED: (
            "pods hold requests and make no progress: broken, not demand; restart them",
            "; {wedged_pods} of them",
        ),
        Reason.LOADING: ("{after} held, not {before}: a replica is still loading its model", "; {starting} starting"),
        Reason.ZERO_REFUSED: (
            "{after} held, not {before}: no signal lives at zero to wake it again; connect a gateway's queue",
        ),
        Reason.FLOOR: ("{after}, not {before}: the policy's minimum", " is {min_replicas}"),
        Reason.MAX: ("{after}, not {before}: the policy's maximum", " is {max_replicas}", _PACE),
        Reason.QUOTA: ("{after}, not {before}: the namespace's quota", " is {quota_replicas}", _PACE),
        Reason.BUDGET: ("{after}, not {before}: the GPU budget", " is {budget_replicas}", _PACE, ": {budget_words}"),
        Reason.INFEASIBLE: (
            "{after}, not {before}: floors and ceilings contradict each other, mend the policy",
            "; at least {floor_replicas} are asked for and at most {ceiling_replicas} allowed",
        ),
        Reason.STEADY: ("{after} is right: capacity and need agree",),
        Reason.NO_SIGNAL: (
            "{after} held: too little is known to change it",
            "; last heard: {ages}",
        ),
        Reason.QUEUE_WATCHED: (
            "{after} held: requests wait and what one replica carries is not known yet",
            "; {queue} waiting",
            ", {in_flight} in flight",
            ", {starting} starting",
            ", {unread} ready and not read yet",
            ", {uncounted} ordered within 30 s and not counted yet",
            ", the load is {load_rps}",
            "; at {done_rps} done the last in line is served within {cleared_s}",
            ", and the objective allows a wait of {slack_s}",
            "; {because}",
        ),
        Reason.OUTDATED: (
            "{after} held: this reading is older than the last one and was ignored",
            "; it is from second {now_s}",
        ),
    }
)  # fmt: skip
"""Reason -> the pieces of its sentence."""
