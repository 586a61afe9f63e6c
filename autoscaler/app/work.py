"""How much every pod of a workload has to do, by what its page said last.

Enters: a sample. Leaves: per pod the tokens it holds, as the used share of its KV cache, and its requests; without a
share for every pod the requests alone. Who has least loses least when it goes.
"""

from collections.abc import Callable, Mapping

from autoscaler.ports import MetricSample, PortError


def work_of(sample: Callable[[str], MetricSample], workload: str) -> Mapping[str, tuple[float, ...]]:
    """Pods (names) with their work, the least comparing first; only those whose pages say."""
    try:
        pods = sample(workload).pods or ()
    except PortError:
        return {}
    told = {pod.name: pod for pod in pods if pod.waiting is not None and pod.running is not None}
    requests = {name: (pod.waiting or 0.0) + (pod.running or 0.0) for name, pod in told.items()}
    if any(pod.kv_cache_usage is None for pod in told.values()):
        return {name: (count,) for name, count in requests.items()}
    return {name: (pod.kv_cache_usage or 0.0, requests[name]) for name, pod in told.items()}
