"""What a person reads: one sentence with a number for each question, or "cannot tell" with the reason."""

from typing import Any

import numpy as np
import pytest

from autoscaler.preflight.cluster import Cluster
from autoscaler.preflight.given import Given
from autoscaler.preflight.history import Fact
from autoscaler.preflight.phrases import lasting, shown_ratio
from autoscaler.preflight.study import study
from autoscaler.preflight.words import TITLES, cluster_sentences, workload_sentences
from tests.preflight.builders import DAY, GONE, HOUR, history, spread, track, wave

SPIKES = np.where(np.arange(7 * DAY) % 60 < 1, 60.0, 16.0)
RISES = np.where(np.arange(7 * DAY) % 240 < 60, 60.0, 16.0)


def said(given: Given | None = None, **made: Any) -> dict[str, str]:
    answers, _ = study(history(**made), given or Given(slots=8.0))
    return {sentence.question: f"{sentence.text} [{sentence.measured}]" for sentence in workload_sentences(answers)}


GOLDEN: dict[str, tuple[dict[str, Any], str, str]] = {
    "a wave": (
        {"steps": 7 * DAY, "running": track(wave(7, low=10.0, high=50.0))},
        "floor",
        """At least 10.2 requests are in flight 95 % of the time; half of the time at least 30, never more than 50
        (averages over one cold start of 3 min). The floor is 2 replicas. [20,155 windows; 7 days of record]""",
    ),
    "nothing at night": (
        {"steps": 7 * DAY, "running": track(np.where(np.arange(7 * DAY) % DAY < 3 * HOUR, 0.0, 9.0))},
        "floor",
        """Nothing: more than one in twenty cold starts would pass without work; half of the time at least 9, never
        more than 9 requests in flight (averages over one cold start of 3 min). [20,155 windows; 7 days of record]""",
    ),
    "never a request": (
        {"running": track(np.zeros(3 * DAY))},
        "floor",
        """Nothing: no request came in the whole record. [8,635 windows; 3 days of record]""",
    ),
    "no durations in a trace": (
        {"running": GONE, "duration": GONE},
        "floor",
        """Cannot tell: requests in flight are not known: no such series, and how long requests take is not known
        either. At least 4 requests/s arrive 95 % of the time. [Needed: a gauge of running requests, or how long
        requests take.]""",
    ),
    "spikes": (
        {"steps": 7 * DAY, "running": track(SPIKES), "replicas": track(np.full(7 * DAY, 4.0))},
        "bursts",
        """Noise: 100 of 100 surges above what the replicas of that moment carry end before capacity could land (3
        min), and all of the excess with them. Let it queue. [90 % sure: 99.1 to 100 %; 336 surges; 7 days of
        record]""",
    ),
    "rises": (
        {"steps": 7 * DAY, "running": track(RISES), "replicas": track(np.full(7 * DAY, 4.0))},
        "bursts",
        """Bursts: 0 of 100 surges above what the replicas of that moment carry end before capacity could land (3
        min), and 90 % of the excess comes after that. Capacity has to come before them. [90 % sure: 0 to 3.5 %;
        84 surges; 7 days of record]""",
    ),
    "spikes within what stands": (
        {"steps": 7 * DAY, "running": track(SPIKES), "replicas": track(np.full(7 * DAY, 10.0))},
        "bursts",
        """Noise: 100 of 100 surges above what a reactive scaler would hold end before capacity could land (3 min),
        and all of the excess with them. Let it queue. Demand was never above what the replicas of that moment
        carry. [90 % sure: 99.1 to 100 %; 335 surges; 7 days of record]""",
    ),
    "no cold start": (
        {"cold_start": GONE},
        "bursts",
        """Cannot tell: no cold start was recorded and none was given. [Needed: measured cold starts, or --cold-start
        SECONDS.]""",
    ),
    "busy replicas": (
        {},
        "residency",
        """Replicas compute for 75 % of the time that they hold GPU memory. 288 of 576 GPU-hours held (50 %) were
        beyond need. [8,640 steps; 3 days of record]""",
    ),
    "idle at night": (
        {"running": track(np.where(np.arange(3 * DAY) % DAY < 6 * HOUR, 0.0, 16.0))},
        "residency",
        """Replicas compute for 75 % of the time that they hold GPU memory. 72 replica-hours were held with no work
        at all, the longest stretch 6 h. 360 of 576 GPU-hours held (62 %) were beyond need. [8,640 steps; 3 days
        of record]""",
    ),
    "idle at night as far as running requests tell": (
        {"waiting": GONE, "running": track(np.where(np.arange(3 * DAY) % DAY < 6 * HOUR, 0.0, 16.0))},
        "residency",
        """Replicas compute for 75 % of the time that they hold GPU memory. 72 replica-hours were held with no running
        request (waiting ones: not known), the longest stretch 6 h. 360 of 576 GPU-hours held (62 %) were beyond
        need. [8,640 steps; 3 days of record]""",
    ),
    "bounded by requests": (
        {"busy_replicas": GONE, "running": track(np.full(3 * DAY, 2.0))},
        "residency",
        """Replicas compute for 6 to 50 % of the time that they hold GPU memory. 432 of 576 GPU-hours held (75 %)
        were beyond need. [bounds: 6.25 to 50 %; 8,640 steps; 3 days of record]""",
    ),
    "waste where nothing tells compute": (
        {"busy_replicas": GONE, "running": GONE},
        "residency",
        """Cannot tell: how many replicas compute is not known: neither they nor running requests were recorded. 288 of
        576 GPU-hours held (50 %) were beyond need. [Needed: replicas with a running request, or running requests.]""",
    ),
    "waste while demand is known in part": (
        {"running": track(np.where(np.arange(3 * DAY) < 1.8 * DAY, 16.0, np.nan))},
        "residency",
        """Replicas compute for 75 % of the time that they hold GPU memory. In the 60 % of the record where need is
        known, 173 of 346 GPU-hours held (50 %) were beyond need. [8,640 steps; 3 days of record]""",
    ),
    "waits and no deadline": (
        {},
        "waiting",
        """Half of the requests waited 0.0556 s or less, one in a hundred 1 s or more. How long they may wait, nobody
        wrote down. Constant capacity for 16 requests at once makes nobody wait; no less if they may wait 60 s and
        no less if they may wait 30 min. [bounds: 0.1 s to 1 s; 1,000 queue waits; 3 days of record]""",
    ),
    "a deadline and no waits": (
        {
            "queue_wait": GONE, "facts": {Fact.DEADLINE_S: "600"}, "running": GONE, "duration": GONE,
            "arrivals_per_s": GONE,
        },
        "waiting",
        """They may wait 10 min (the deadline, as the source names it). [Not known: queue waits are not known: no
        such series.]""",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "question", "text"), GOLDEN.values(), ids=GOLDEN)
def test_an_answer_reads(made: dict[str, Any], question: str, text: str) -> None:
    assert said(**made)[question] == " ".join(text.split())


def test_all_workloads_together_read_in_gpus_with_what_sharing_saves_and_what_it_costs() -> None:
    cluster = Cluster()
    day = wave(7, low=0.0, high=32.0)
    facts = {Fact.PRIORITY_CLASS: "nightly-batch"}
    given = Given(slots=8.0, price_per_gpu_hour={"": 2.0})
    common: dict[str, Any] = {"steps": 7 * DAY, "queue_wait": spread([30.0], [100], exact=True)}
    cluster.add(*study(history(workload="day", running=track(day), **common), given))
    cluster.add(*study(history(workload="night", running=track(32.0 - day), facts=facts, **common), given))
    found = {s.question: s.text for s in cluster_sentences(cluster.finish())}
    assert found["floor"] == (
        "At least 8 GPUs are needed 95 % of the time; half of the time at least 8, never more than 8 (averages over "
        "one cold start of 3 min). "
        "Apart, the workloads' highest levels add up to 16: sharing takes 50 % less."
    )
    assert found["residency"].startswith("Replicas compute for 75 % of the time that they hold GPU memory. ")
    assert "GPU-hours held (" in found["residency"]
    assert ", which cost " in found["residency"]
    assert found["waiting"].startswith(
        "One request in a hundred waited 30 s or more at day, the longest of all. "
        "By priority class the demand is 50 % batch, 50 % not named."
    )


def test_what_only_some_can_tell_is_said_to_be_of_some() -> None:
    cluster = Cluster()
    given = Given(slots=8.0)
    for name, gpus in (("a", 2.0), ("b", None)):
        cluster.add(*study(history(workload=name, gpus_per_replica=gpus), given))
    text = cluster_sentences(cluster.finish())[2].text
    assert text.endswith("288 of 576 GPU-hours held (50 %) were beyond need (1 of 2 workloads can tell).")


def test_waste_is_a_share_of_what_was_held_while_need_is_known_for_all_together_too() -> None:
    often_known = np.full(3 * DAY, 16.0)
    often_known[round(1.8 * DAY) :] = np.nan
    cluster = Cluster()
    for name in "ab":
        cluster.add(*study(history(workload=name, running=track(often_known)), Given(slots=8.0)))
    text = cluster_sentences(cluster.finish())[2].text
    part = "In the 60 % of the record where need is known"
    assert text.endswith(f" {part}, 346 of 691 GPU-hours held (50 %) were beyond need.")


def test_known_waste_of_all_is_told_where_computing_cannot_be() -> None:
    cluster = Cluster()
    for name in "ab":
        made = history(workload=name, running=GONE, busy_replicas=GONE)
        cluster.add(*study(made, Given(slots=8.0)))
    text = cluster_sentences(cluster.finish())[2].text
    assert text.startswith("Cannot tell: ")
    assert text.endswith(". 576 of 1,152 GPU-hours held (50 %) were beyond need.")


def test_money_of_some_workloads_is_not_told_as_that_of_all() -> None:
    cluster = Cluster()
    given = Given(slots=8.0, price_per_gpu_hour={"h100": 3.0})
    for name, facts in (("a", {Fact.SHAPE: "h100"}), ("b", {})):
        cluster.add(*study(history(workload=name, facts=facts), given))
    text = cluster_sentences(cluster.finish())[2].text
    assert text.endswith(
        "576 of 1,152 GPU-hours held (50 %) were beyond need, which cost 864 in the 1 workload with a price."
    )


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.0004, "less than 0.1 %"), (0.123, "12.3 %"), (0.9999, "more than 99.9 %"), (1.0, "100 %")],
)
def test_a_share_is_neither_nothing_nor_all_by_rounding_alone(share: float, text: str) -> None:
    assert shown_ratio(share) == text


def test_long_durations_are_told_in_days() -> None:
    assert [lasting(seconds) for seconds in (45, 7200, 86_400, 14 * 86_400)] == ["45 s", "2 h", "24 h", "14 days"]


def test_every_question_has_a_title_and_four_are_answered_in_order() -> None:
    answers, _ = study(history(), Given())
    assert [sentence.question for sentence in workload_sentences(answers)] == list(TITLES)
