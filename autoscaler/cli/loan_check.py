"""Whether every loan that is told of is one, for `headroom doctor`.

Enters: a client. Leaves: for each loan that is none, or is not given back, a sentence and what to do. A loan is told of
in the status of its WarmPool and in an annotation of its gang; each may outlive the loan where nobody leads, or where
somebody else stopped the gang. What is not served has nothing of it.
"""

from collections.abc import AsyncIterator
from typing import Final

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_kinds import KINDS
from autoscaler.adapters.kube.batch_work import LOAN, Work
from autoscaler.adapters.kube.scope import GROUP, VERSION
from autoscaler.api.batch_work import QUEUE
from autoscaler.api.crd import WARM_POOL
from autoscaler.cli.leftovers import as_work, listed

LATER: Final = "the replica that leads mends it within seconds; if it stays, see whether one leads, and its logs"


async def stale_loans(api: KubeApi) -> AsyncIterator[tuple[str, str]]:
    """Loans whose gang is gone, does not go or stands still, then gangs that wait and say that they have one.

    Raises KubeError.
    """
    works = await _works(api)
    for pool in await listed(api, f"/apis/{GROUP}/{VERSION}/{WARM_POOL.plural}"):
        name = pool["metadata"]["name"]
        for loan in (pool.get("status") or {}).get("loans") or ():
            gang, units = str(loan.get("gang", "")), loan.get("units", 0)
            work = works.get(gang)
            if work is None or work.ended:
                yield f"WarmPool {name} tells of {units} units lent to {gang}, which is gone", LATER
            elif loan.get("overdue"):
                namespace = work.ref.namespace
                mend = f"see why its pods stay (kubectl -n {namespace} get pods -o wide): finalizers, nodes not ready"
                yield f"{gang} was told to give {units} units back to WarmPool {name} and does not go", mend
            elif work.suspended and not loan.get("recalledAt"):
                yield f"WarmPool {name} tells of {units} units lent to {gang}, which is suspended", LATER
    for gang, work in sorted(works.items()):
        if work.suspended and LOAN in work.annotations:
            resource, namespace = work.ref.resource, work.ref.namespace
            mend = f"kubectl -n {namespace} annotate {resource} {work.ref.name} {LOAN}-, or let it start: it goes then"
            yield f"{gang} is suspended and says in {LOAN} that it has units on loan: it has none", mend


async def _works(api: KubeApi) -> dict[str, Work]:
    """All work with the label of a queue, by its name as a gang."""
    found = [
        as_work(one, kind) for kind in KINDS.values() for one in await listed(api, kind.path, selector=QUEUE)
    ]  # fmt: skip
    return {work.name: work for work in found if work is not None}
