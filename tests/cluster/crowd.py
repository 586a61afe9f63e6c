"""Many gangs of several pods on one control plane, each let in, run for a while and ended; who is guaranteed GPUs takes
them back from others, so that some are stopped whole and start again."""

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import numpy as np

from tests.cluster.batch_work import Desk
from tests.cluster.plane import RefusedError, audit_entries
from tests.cluster.processes import wait_for
from tests.cluster.wholeness import Held, held, turns

PODS: Final = (2, 3, 4, 8)
GPUS: Final = (1, 2, 4, 8)
MOST_GPUS: Final = 32
"""Of one gang."""


def drawn(count: int, seed: int) -> dict[str, tuple[int, int]]:
    """So many gangs: pods and GPUs of each pod."""
    rng, found = np.random.default_rng(seed), dict[str, tuple[int, int]]()
    while len(found) < count:
        pods, gpus = int(rng.choice(PODS)), int(rng.choice(GPUS))
        if pods * gpus <= MOST_GPUS:
            found[f"gang-{len(found)}"] = pods, gpus
    return found


def run(desk: Desk, gangs: Mapping[str, tuple[int, int]], guaranteed: int, run_s: float, within_s: float) -> Held:
    """Let them all through: the later half belongs to a queue with a guarantee, and comes once the nodes are full."""
    root = desk.queue("all")
    lent, owner = desk.queue("lent", own=False, parent=root), desk.queue("owner", guaranteed, own=False, parent=root)
    names = list(gangs)
    first, later = names[: len(names) // 2], names[len(names) // 2 :]
    for name in first:
        desk.job(name, lent, *gangs[name])
    left, whole_since_s = dict.fromkeys(first), dict[str, float]()

    def through() -> bool:
        bound, over = _bound(desk), _over(desk)
        if later and (bound.keys() & set(first)):
            for name in later:
                desk.job(name, owner, *gangs[name])
            left.update(dict.fromkeys(later))
            later.clear()
        now_s = time.monotonic()
        for name in list(left):
            if name in over:
                del left[name]
            elif bound.get(name, 0) < gangs[name][0]:
                whole_since_s.pop(name, None)
            elif now_s >= whole_since_s.setdefault(name, now_s) + run_s:
                _end(desk, name)
        return not left and not later

    wait_for(through, within_s, "all gangs to have run", every_s=0.2)
    return held(
        turns(audit_entries(desk.plane.audit), [desk.namespace]),
        {f"{desk.namespace}/{name}": size for name, size in gangs.items()},
    )


def _end(desk: Desk, name: str) -> None:
    """Let the pods of a gang end well, but for those that go at this very instant because it is stopped."""
    try:
        desk.end(name)
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


def _over(desk: Desk) -> set[str]:
    """The gangs of which all pods ended well."""
    jobs = desk.plane.call("GET", f"/apis/batch/v1/namespaces/{desk.namespace}/jobs")["items"]
    return {
        job["metadata"]["name"] for job in jobs
        if job["status"].get("succeeded", 0) == job["spec"]["completions"]
    }  # fmt: skip


def _bound(desk: Desk) -> dict[str, int]:
    """Pods that are bound and not told to go, by gang; those that ended well count as there."""
    found: dict[str, int] = {}
    for pod in desk.plane.call("GET", f"/api/v1/namespaces/{desk.namespace}/pods")["items"]:
        if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
            name = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
            found[name] = found.get(name, 0) + 1
    return found
