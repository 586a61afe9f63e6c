"""`python -m loadtests NAME [ARGUMENTS]`: run one load test."""

import importlib
import sys

NAMES = {
    "bench": "one of the benchmarks; without a name, their list",
    "batch": "batch admission beside bounds: recorded and drawn jobs under several policies, packing, sharing",
    "burst": "two bursts of replicas that land on warm nodes of real Karpenter, with the stage clock of it",
    "clocks": "how often a warm pool goes by a clock where there is none, and what it saves where there is one",
    "compare": "one scenario scaled by Headroom, and by KEDA and HPA on the length of the queue, side by side",
    "engines": "OpenAI-compatible servers that batch as engines do, from a measured profile, without a GPU",
    "loan": "a burst calls a loan back, the gang checkpoints, the burst is served, the gang goes on: the page",
    "loop": "`headroom decide --jsonl` driven by a plant of single requests, beside a constant count and HPAs",
    "ratios": "GPU-hours over the clairvoyant bound: ours at one default, rivals swept in hindsight",
    "recovery": "a step nobody foresaw, with and without warm slots, beside what the stage clock foretold",
    "run": "one scenario on a real control plane, with real traffic and real servers, and what the simulator says",
    "traffic": "open-loop load on an OpenAI-compatible service: latencies from the intended instants",
    "warm": "warm hits and idle-warm hours: our pool, and the smallest static pool in hindsight",
}


def main(arguments: list[str]) -> int:
    """Run the load test named first; its own arguments follow."""
    if not arguments or arguments[0] not in NAMES:
        listed = "\n".join(f"  {name:<8} {what}" for name, what in NAMES.items())
        asked = arguments[0] if arguments else None
        wrong = asked not in {None, "-h", "--help"}
        print(
            (f"unknown load test {asked!r}; there are:\n" if wrong else "usage: loadtests NAME [ARGUMENTS]\n") + listed,
            file=sys.stderr if wrong else sys.stdout,
        )
        return 2 if wrong or asked is None else 0
    module = importlib.import_module(
        "loadtests.bench.__main__" if arguments[0] == "bench" else f"loadtests.{arguments[0]}"
    )
    return int(module.main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
