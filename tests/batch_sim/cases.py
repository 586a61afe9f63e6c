"""Small cases and files for the batch simulator's tests."""

from typing import Any

from autoscaler.sim.batch.bounds import bounds_of
from autoscaler.sim.batch.plant import Fate, Past, run
from autoscaler.sim.batch.rivals import RIVALS
from autoscaler.sim.batch.score import Score, score
from autoscaler.sim.batch.work import Case, Job, Tenant, racks

PHILLY = """submit_s,tenant,job_id,gang_size,gpus_per_pod,gpu_model,duration_s,priority,total_gpus
10,a,j0,1,4,,60,,4
86400,b,j1,2,8,,100,,16
86410,b,j2,1,1,,0,,1
172900,a,j3,1,1,,50,,1
"""
QUOTA = "tenant,nodes,gpus_if_8_per_node\na,1,8\nb,2,16\n"
PODS = (
    "submit_s,tenant,job_id,gang_size,gpus_per_pod,gpu_model,duration_s,priority,cpu,memory_mib,observed_queue_s,phase"
    """
1,,p0,1,0.25,T4|G2,10,BE,4.0,2048,0.0,Running
2,,p1,1,8.0,,10,LS,64.0,1024,,Pending
"""
)
NODES = "node,gpu_model,gpus,cpu,memory_mib\nh0,T4,2,96.0,1024\nh1,,0,32.0,1024\n"
MINUTES = (
    "minute,tenant,capacity_gpus,running_gpus,pending_gpus,running_gpus_big,pending_gpus_big,running_jobs,pending_jobs"
    """
0,x,8,4,0,0,0,1,0
0,y,8,8,8,0,0,1,1
1,x,8,4,0,0,0,1,0
1,y,8,8,0,0,0,1,0
"""
)


def job(name: str, submit_s: float, duration_s: float, gpus: int = 1, pods: int = 1, **more: Any) -> Job:
    return Job(name, more.pop("tenant", "a"), submit_s, pods, gpus, duration_s, more.pop("says", duration_s), **more)


def case(*jobs: Job, nodes: int = 1, **more: Any) -> Case:
    named = sorted({each.tenant for each in jobs})
    tenants = more.pop("tenants", tuple(Tenant(name) for name in named))
    return Case("test", racks(nodes), tenants, tuple(sorted(jobs, key=lambda each: each.submit_s)), **more)


def fates(name: str, of: Case) -> dict[str, Fate]:
    """What a rival makes of a case."""
    return {fate.job.name: fate for fate in played(name, of).fates}


def played(name: str, of: Case) -> Past:
    return run(of, RIVALS[name](name, of), sample_s=10.0)


def judged(past: Past) -> Score:
    return score(past, bounds_of(past.case))
