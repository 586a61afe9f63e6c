"""What Prometheus says of Jobs, made by hand: everything read throughout unless a test says otherwise."""

from typing import Any

import numpy as np

from autoscaler.adapters.prometheus.archive import Loss, Past
from autoscaler.adapters.prometheus.jobs import OF_JOBS, OF_PODS, RUNG, SEEN, job_questions
from autoscaler.adapters.prometheus.questions import SIGNAL, Window
from autoscaler.preflight.gpu_jobs import Answers

DAY_S = 86_400
DAY = DAY_S // 300
"""Looks of a day."""

Rows = dict[tuple[str, str], Any]


def window(days: float) -> Window:
    return Window(0, 30, int(days * DAY_S) // 30)


def answers(
    days: float,
    gpus: Rows,
    *,
    ended: Rows | None = None,
    seen: Any = 1.0,
    names: dict[str, Any] | None = None,
    losses: dict[str, tuple[Loss, ...]] | None = None,
) -> Answers:
    """By the question's name: `gpus` by signal and namespace, `ended` by namespace and rung, `names` by metric."""
    asked = {one.name: one for one in job_questions(window(days))}
    there = names if names is not None else dict.fromkeys((*OF_PODS, *OF_JOBS), 9.0)
    rows = {
        "held": [({SIGNAL: SEEN}, seen)]
        + [({SIGNAL: signal, "namespace": space}, row) for (signal, space), row in gpus.items()],
        "ended": [({"namespace": space, RUNG: rung}, row) for (space, rung), row in (ended or {}).items()],
        "names": [({"__name__": name}, row) for name, row in there.items()],
    }
    return {
        name: (
            one,
            Past(
                tuple(labels for labels, _ in rows[name]),
                np.array([np.broadcast_to(row, one.points) for _, row in rows[name]]).reshape(-1, one.points),
                (losses or {}).get(name, ()),
            ),
        )
        for name, one in asked.items()
    }
