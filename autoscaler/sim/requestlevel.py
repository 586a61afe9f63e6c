"""An instance served request by request: its engine's profile, the measured capacity of a replica, and latencies.

Enters: the text of `--profile`, a traffic, a cluster. Leaves: a Profile, an Instance whose capacity was found by trying
(the bounds then stand on a measured figure and are references, not laws), and percentiles of what requests lived
through.
"""

from pathlib import Path
from typing import Final

import numpy as np

from autoscaler.errors import InputError
from autoscaler.sim.choices import PROFILE_FORM
from autoscaler.sim.instance import Cluster, Instance
from autoscaler.sim.plant import PlantSpec
from autoscaler.sim.serving import FloatArray
from autoscaler.sim.serving.arrivals import CONVERSATION, Lengths
from autoscaler.sim.serving.measure import RequestSlo, measure_capacity_rps
from autoscaler.sim.serving.profile import DEFAULT_PROFILE, Profile, read_profile
from autoscaler.sim.serving.requests import RequestTimes
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup

PERCENTILES: Final = (50, 90, 99)
_TEXTS: Final = frozenset({"model", "gpu"})
_COUNTS: Final = frozenset({"tp", "slots", "kv-tokens"})


def load_profile(argument: str | None) -> Profile:
    """The profile of `FILE#selection`, or the built-in one. InputError naming what cannot be read."""
    if argument is None:
        return DEFAULT_PROFILE
    name, _, fragment = argument.partition("#")
    texts: dict[str, str] = {}
    counts: dict[str, int] = {}
    for part in filter(None, fragment.split("&")):
        key, _, value = part.partition("=")
        if key in texts or key in counts or not value or not (key in _TEXTS or (key in _COUNTS and value.isdigit())):
            raise InputError(f"--profile {argument}: {part!r} cannot be used; the form is {PROFILE_FORM}")
        if key in _TEXTS:
            texts[key] = value
        else:
            counts[key] = int(value)
    return read_profile(
        Path(name),
        model=texts.get("model"),
        gpu_model=texts.get("gpu"),
        tp=counts.get("tp"),
        max_num_seqs=counts.get("slots"),
        kv_tokens=counts.get("kv-tokens"),
    )


def lengths_of(traffic: Traffic) -> Lengths:
    """Lengths with the means and variations of the traffic's own requests; a published conversation's without them."""
    prompts, outputs = traffic.prompt_tokens, traffic.output_tokens
    if prompts is None or outputs is None or prompts.size == 0:
        return CONVERSATION
    prompt_mean, output_mean = max(1.0, float(prompts.mean())), max(1.0, float(outputs.mean()))
    return Lengths(
        prompt_mean, output_mean, float(prompts.std()) / prompt_mean, float(outputs.std()) / output_mean, traffic.source
    )


def measured_instance(traffic: Traffic, cluster: Cluster, profile: Profile, *, seed: int) -> Instance:
    """The traffic before replicas of `profile`. Unless a capacity is given it is measured: the highest Poisson rate of
    such requests at which one replica keeps 99 % within the objective. A replica has the profile's slots."""
    if cluster.capacity_rps is not None:
        capacity_rps, source = cluster.capacity_rps, "given"
    else:
        capacity_rps = measure_capacity_rps(profile, lengths_of(traffic), RequestSlo(wait_s=cluster.slo_wait_s), seed)
        source = f"measured on {profile.name}: Poisson arrivals of these lengths, 99 % within the objective"
    spec = PlantSpec(
        capacity_rps=capacity_rps,
        warmup=Warmup(cluster.warmup_s, cluster.warmup_p90_s),
        slo_wait_s=cluster.slo_wait_s,
        service_s=profile.max_num_seqs / capacity_rps,
        max_replicas=cluster.max_replicas,
        failed_start_ratio=cluster.failed_start_ratio,
        seed=seed,
    )
    return Instance(traffic, spec, source)


def latency(times: RequestTimes) -> dict[str, object]:
    """Percentiles in seconds of queue wait, TTFT, time per output token and end-to-end over the requests that got that
    far (None where none did), and how many were still unfinished at the end."""
    figures = {"queue_s": times.queue_s, "ttft_s": times.ttft_s, "tpot_s": times.tpot_s, "e2e_s": times.e2e_s}
    record: dict[str, object] = {name: _percentiles(seconds) for name, seconds in figures.items()}
    return {**record, "requests": int(times.e2e_s.size), "unfinished": int(np.isnan(times.e2e_s).sum())}


def _percentiles(seconds: FloatArray) -> dict[str, float | None]:
    known = seconds[~np.isnan(seconds)]
    return {f"p{q}": float(np.percentile(known, q)) if known.size else None for q in PERCENTILES}
