"""The neutral request-level format: `arrival_s, model, tenant, prompt_tokens, output_tokens`, as CSV or Parquet.

`arrival_s` counts seconds from the start of the window; `tenant` is empty where the source has none. Two columns about
shared prefixes are accepted and not used.
"""

from autoscaler.sim.traces.requestlog import RequestLog
from autoscaler.sim.traces.table import Table

REQUIRED = ("arrival_s", "model", "tenant", "prompt_tokens", "output_tokens")
OPTIONAL = ("prefix_blocks", "prefix_hit_blocks")
WHAT = "a neutral request trace"


def read(table: Table) -> RequestLog:
    """The requests in order; InputError on a faulty instant or count."""
    table.require(REQUIRED, OPTIONAL, WHAT)
    arrival_s = table.numbers("arrival_s")
    table.ascending("arrival_s", arrival_s)
    return RequestLog(
        path=table.path,
        arrival_s=arrival_s,
        prompt_tokens=table.numbers("prompt_tokens", whole=True),
        output_tokens=table.numbers("output_tokens", whole=True),
        models=table.columns["model"],
        tenants=table.columns["tenant"],
    )
