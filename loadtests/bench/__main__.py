"""`python -m loadtests.bench NAME [ARGUMENTS]`: run one benchmark."""

import importlib
import sys

from autoscaler.errors import HeadroomError, InputError

NAMES = {
    "all": "every figure the product promises, one command after the other, and the table of them",
    "batch_admissions": "2,000 Jobs let in on a real API server: writes for each, and the rate beside a bare PATCH's",
    "batch_drain": "a backlog of 50,000 gangs in 1,000 queues through the core: admissions a second, cycle p99",
    "batch_loops": "a million random steps through the batch core, in search of a preemption loop",
    "batch_plans": "single decisions of the batch core: a verdict, victims for 4,000 gangs, one placement",
    "batch_whole": "gangs on the real scheduler: the share of GPU-seconds that they hold while they are not whole",
    "callers": "from the next leader's first second to KEDA's first call, behind an address and behind a name",
    "core_step": "one decision step of the core over a table of 10,000 workloads",
    "failover": "from the end of a leader to the other replica's first decision, on a real API server",
    "following": "listing and decoding 5,000 pods",
    "keda": "KEDA's calls: calls a second beside a bare echo, latency at 200 a second, memory",
    "loop_lag": "how late the event loop turns while the live driver steps 1,000 workloads",
    "preflight_prometheus": "preflight over two weeks of 200 workloads, out of a stand-in for Prometheus",
    "preflight": "what 200 workloads of 14 days at 30 s take to be measured and written about",
    "pool_step": "one look of the core at a warm pool of 2,000 nodes and 5,000 slots",
    "reaction": "from a pod's page to the patch of /scale, 1,000 pods on a real API server",
    "replay": "a workload-week of a metrics store, and an hour of an audit, through the core again",
    "scrape": "reading the metrics pages of 1,000 pods once a second",
    "traffic": "stream events a second and open streams of one load generator, memory of 200 engine servers",
    "waking": "from our answer to the count, woken from zero through KEDA's push and HPA's pull",
}


def main(arguments: list[str]) -> int:
    """Run the benchmark named first; its own arguments follow."""
    if not arguments or arguments[0] not in NAMES:
        listed = "\n".join(f"  {name:<20} {what}" for name, what in NAMES.items())
        asked = arguments[0] if arguments else None
        wrong = asked not in {None, "-h", "--help"}
        print(
            (f"unknown benchmark {asked!r}; there are:\n" if wrong else "usage: bench NAME [ARGUMENTS]\n") + listed,
            file=sys.stderr if wrong else sys.stdout,
        )
        return 2 if wrong or asked is None else 0
    module = importlib.import_module(f"loadtests.bench.{arguments[0]}")
    try:
        return int(module.main(arguments[1:]))
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
