"""Azure LLM inference traces (Patel et al., "Splitwise", ISCA 2024; AzurePublicDataset): one service per file.

Enters: a table with `TIMESTAMP`, `ContextTokens` and `GeneratedTokens`. Leaves: a `RequestLog` that starts at its
first request.
"""

import re

import numpy as np

from autoscaler.sim.traces.requestlog import RequestLog
from autoscaler.sim.traces.table import Table, bad_field

REQUIRED = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
OPTIONAL = ()
WHAT = "an Azure LLM trace"

_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?:Z|\+00:00)?")


def read(table: Table) -> RequestLog:
    """The requests in order; InputError on an instant that is no UTC date and time, or a faulty count."""
    table.require(REQUIRED, OPTIONAL, WHAT)
    texts = table.columns["TIMESTAMP"]
    instants = np.empty(len(texts), dtype="datetime64[ns]")
    for row, text in enumerate(texts):
        match = _INSTANT.fullmatch(text)
        try:
            instants[row] = np.datetime64(match[1] if match else "", "ns")
        except ValueError:
            instants[row] = np.datetime64("NaT")
        if np.isnat(instants[row]):
            problem = "is not a UTC date and time such as 2023-11-16 18:15:46.6805900"
            raise bad_field(table.path, table.lines[row], "TIMESTAMP", text, problem)
    nanoseconds = (instants - instants[0]).astype(np.int64).astype(np.float64)
    table.ascending("TIMESTAMP", nanoseconds)
    return RequestLog(
        path=table.path,
        arrival_s=nanoseconds / 1e9,
        prompt_tokens=table.numbers("ContextTokens", whole=True),
        output_tokens=table.numbers("GeneratedTokens", whole=True),
    )
