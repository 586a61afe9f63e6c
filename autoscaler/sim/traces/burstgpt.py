"""BurstGPT traces (Wang et al., "BurstGPT: A Real-World Workload Dataset to Optimize LLM Serving Systems", 2024).

Enters: a table with `Timestamp` in seconds, `Model`, `Request tokens`, `Response tokens`, `Total tokens` and
`Log Type`. Leaves: a `RequestLog`. A failed request has 0 response tokens: it was offered, so it stays.
"""

from autoscaler.sim.traces.requestlog import RequestLog
from autoscaler.sim.traces.table import Table

REQUIRED = ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type")
OPTIONAL = ("Session ID", "Elapsed time")
WHAT = "a BurstGPT trace"


def read(table: Table) -> RequestLog:
    """The requests in order; InputError on a faulty instant or count."""
    table.require(REQUIRED, OPTIONAL, WHAT)
    arrival_s = table.numbers("Timestamp")
    table.ascending("Timestamp", arrival_s)
    table.numbers("Total tokens", whole=True)
    return RequestLog(
        path=table.path,
        arrival_s=arrival_s,
        prompt_tokens=table.numbers("Request tokens", whole=True),
        output_tokens=table.numbers("Response tokens", whole=True),
        models=table.columns["Model"],
    )
