"""The cases of `loadtests batch`: what is played, on which nodes, under which policies.

Enters: seeds, the folder of the trace files. Leaves: rows for a result; a line on standard output for each policy as it
is done. It knows nothing of arguments or files of results.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from autoscaler.cli.progress import Meter
from autoscaler.sim.batch import files, shares
from autoscaler.sim.batch.bounds import bounds_of
from autoscaler.sim.batch.contest import POLICIES, enter
from autoscaler.sim.batch.generate import kueue_baseline, mixed, overstated
from autoscaler.sim.batch.joint import day, need_of
from autoscaler.sim.batch.packed import every_pod, ours, whole_pods
from autoscaler.sim.batch.packing import best_fit, bound, drawn
from autoscaler.sim.batch.score import Score
from autoscaler.sim.batch.shared import gain
from autoscaler.sim.batch.work import Case, Recovery, cluster_of, racks, scaled
from autoscaler.sim.contest import Bounds as Ruled
from autoscaler.sim.contest import make_policy
from autoscaler.sim.instance import Cluster, load_traffic, make_instance
from autoscaler.sim.score import attainment
from autoscaler.sim.simulate import run as serve
from autoscaler.sim.traces.selection import DAY_S

PHILLY = "batch/philly_dev_jobs.csv.gz"
QUOTA = "batch/philly_quota.csv"
PODS = "batch/openb_dev_pods.csv.gz"
HOSTS = "batch/openb_nodes.csv.gz"
HELIOS = "batch/helios_earth_vc_minutes_dev.csv.gz"
RATES = "inference/servegen_rates_week1.csv.gz"
PHILLY_GPUS = 500
WINDOWS = ((33, 7), (17, 7), (2, 14))
"""(first day, days): the seven days with a load nearest to 0.8 and to 0.95, and the first two weeks after two days."""

SIMPLE = ("headroom", "headroom-one-queue", "easy", "greedy", "sjf", "drf", "kueue")
"""Who runs the long window."""


def played(case: Case, names: Sequence[str], sample_s: float = 300.0) -> dict[str, object]:
    """All policies on one case; a table line for each as it is done."""
    bounds = bounds_of(case)
    print(f"{case.label}: {len(case.jobs)} jobs, {case.total_gpus} GPUs, load {case.load_ratio:.2f}", flush=True)
    rows = []
    with Meter(len(names)) as meter:
        for name in names:
            meter.begin(name)
            rows.append(enter(name, case, bounds, sample_s=sample_s, progress=meter.move))
            print(line(rows[-1]), flush=True)
    return {
        "case": case.label, "jobs": len(case.jobs), "gpus": case.total_gpus, "load_ratio": case.load_ratio,
        "bounds": asdict(bounds), "policies": [asdict(row) for row in rows],
    }  # fmt: skip


def line(row: Score) -> str:
    """One policy for a person."""
    wait_h = None if row.worst_large_wait_s is None else row.worst_large_wait_s / 3600.0
    figures = (
        ("completion", row.completion_ratio), ("large wait h", wait_h), ("makespan", row.makespan_ratio),
        ("useful", row.utilisation), ("in vain", row.lost_ratio), ("worst tenant", row.fairness.worst_ratio),
    )  # fmt: skip
    told = "  ".join(f"{name} {'–' if value is None else f'{value:.2f}'}" for name, value in figures)
    undone = f"  {row.unfinished} undone" if row.unfinished else ""
    return f"  {row.policy:<20} {told}  {row.evictions} evictions{undone}"


def philly(data: Path, first_day: int, days: int, gpus: int = PHILLY_GPUS) -> Case:
    """A window of the recorded jobs on nodes of 8 GPUs, quotas scaled to them."""
    jobs = files.philly(data / PHILLY, first_day=first_day, days=days)
    guarantees = files.quotas(data / QUOTA)
    tenants = scaled(guarantees, files.tenants_of(jobs, guarantees), gpus)
    return Case(f"Philly, days {first_day} to {first_day + days - 1}", cluster_of(gpus), tenants, jobs)


def generator(seeds: int, seed: int) -> list[dict[str, object]]:
    """Loads 0.8 and 0.95, told the truth and up to five times too much."""
    out = []
    for load in (0.8, 0.95):
        for at in range(seed, seed + seeds):
            case = mixed(load=load, seed=at)
            out.append({"seed": at, **played(case, POLICIES)})
            out.append({"seed": at, **played(overstated(case, 5.0, at), ("headroom", "easy", "sjf"))})
    return out


def packing(seeds: int, seed: int) -> list[dict[str, object]]:
    """Racks of 18 nodes, from 1,152 to 9,216 GPUs: how far packings stay below the bound."""
    out: list[dict[str, object]] = []
    for count in (8, 16, 32, 64):
        for at in range(seed, seed + seeds):
            instance = drawn(count, at)
            most = bound(instance)
            gaps = {name: 1.0 - instance.worth(who(instance)) / most for name, who in PACKERS.items()}
            out.append({"gpus": instance.total_gpus, "seed": at, "gap_ratio": gaps})
            print(f"packing {instance.total_gpus} GPUs, seed {at}: {gaps}", flush=True)
    return out


PACKERS = {"headroom": ours, "best-fit": best_fit}


def openb(data: Path, seeds: int, seed: int) -> list[dict[str, object]]:
    """GPUs allocated to pods of openb, drawn until they ask for all, and to those of whole GPUs of any model alone."""
    hosts, known = files.hosts(data / HOSTS), files.pods(data / PODS)
    plain = shares.whole(known)
    out: list[dict[str, object]] = []
    for at in range(seed, seed + seeds):
        every, mine = (shares.drawn(each, hosts, at) for each in (known, plain))
        row: dict[str, object] = {
            "seed": at,
            "all": {
                "pods": len(every), "headroom": every_pod(every, hosts), "best-fit": shares.best_fit(every, hosts),
                "bound": shares.bound(every, hosts),
            },
            "whole": {
                "pods": len(mine), "headroom": whole_pods(mine, hosts), "best-fit": shares.best_fit(mine, hosts),
                "bound": shares.bound(mine, hosts),
            },
        }  # fmt: skip
        out.append(row)
        print(f"openb: {row}", flush=True)
    return out


def recorded(data: Path) -> list[dict[str, object]]:
    """The windows of Philly."""
    return [played(philly(data, first, days), SIMPLE if days > 7 else POLICIES) for first, days in WINDOWS]


def kueue() -> list[dict[str, object]]:
    """Kueue's baseline; who knows nothing of cohorts would borrow across them."""
    return [played(kueue_baseline(), ("headroom-guarantees", "headroom", "kueue"), sample_s=1.0)]


def helios(data: Path) -> list[dict[str, object]]:
    """What Helios' virtual clusters would have gained by sharing."""
    found = asdict(gain(files.minutes(data / HELIOS)))
    print(f"Helios: {found}", flush=True)
    return [found]


def joint(data: Path) -> list[dict[str, object]]:
    """A day of m-small on whole nodes, its idle nodes lent to two days of Philly's jobs; batch begins a day before.

    Serving is simulated twice: alone, and with no start finding a node while gangs had not left the one it needed.
    """
    traffic = load_traffic(f"{data / RATES}#model=m-small&day=1&rate=200", None, seed=0)
    instance = make_instance(traffic, Cluster(warmup_s=60.0), seed=0)
    alone = serve(traffic, instance.spec, make_policy("headroom", instance, Ruled(None, None)))
    need = need_of(alone.timeline, DAY_S)
    jobs = files.philly(data / PHILLY, first_day=9, days=2)
    nodes = racks(max(count for _, count in need) + 1)
    tenants = scaled({}, files.tenants_of(jobs, {}), 0)
    case = Case("joint day", nodes, tenants, jobs, Recovery(30.0, 120.0, 1800.0))
    lent = day(case, need, from_s=DAY_S, to_s=2 * DAY_S)
    spec = replace(instance.spec, unschedulable=lent.shortages)
    beside = serve(traffic, spec, make_policy("headroom", instance, Ruled(None, None)))
    in_time = [attainment(each.waits, spec.slo_wait_s) for each in (alone, beside)]
    found = {
        **asdict(lent), "nodes": len(nodes), "used_ratio": lent.used_gpu_h / lent.idle_gpu_h,
        "in_time_alone": in_time[0], "in_time_beside": in_time[1], "lost_points": 100.0 * (in_time[0] - in_time[1]),
    }  # fmt: skip
    print(f"joint day: {found['used_ratio']:.3f} of idle GPU-hours used, {found['lost_points']:.3f} points", flush=True)
    return [found]
