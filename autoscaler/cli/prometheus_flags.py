"""How a person names a Prometheus and what to read of it: the same options for every command that reads its past.

Enters: nothing. Leaves: the options' types for typer, and one value that holds what was typed; `prometheus_options`
says what it means. Nothing heavy is imported, because `--help` reads this.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

DAYS: Final = 14.0
QUERY_TIMEOUT_S: Final = 60.0


def _option(name: str, help_text: str, metavar: str) -> Any:
    return typer.Option(name, help=help_text, metavar=metavar)


Server = Annotated[
    str | None, _option("--prometheus", "A Prometheus: its URL, or the name that the settings give it.", "URL|NAME")
]
Config = Annotated[Path | None, _option("--config", "Settings that name it; else HEADROOM_CONFIG.", "FILE")]
TokenFile = Annotated[Path | None, _option("--token-file", "With a URL: a file with a bearer token.", "FILE")]
CaFile = Annotated[Path | None, _option("--ca-file", "With a URL: certificates (PEM) to check its own with.", "FILE")]
Days = Annotated[float, _option("--days", "How far back the past is read.", "DAYS")]
From = Annotated[str | None, _option("--from", "Begin of the window: 2026-11-01 or 2026-11-01T08:00, UTC.", "TIME")]
To = Annotated[str | None, _option("--to", "End of the window; left out, now.", "TIME")]
Workloads = Annotated[
    list[str] | None, _option("--workload", "Only this one; may be repeated. Left out: all that are found.", "NS/NAME")
]
Selectors = Annotated[
    list[str] | None,
    _option("--selector", "Which series are the workload's, where that cannot be found out; one for each.", "MATCHERS"),
]
Namespaces = Annotated[list[str] | None, _option("--namespace", "Look here only; may be repeated.", "NAME")]
OwnerLabels = Annotated[
    list[str] | None,
    _option("--owner-label", "Label that names the workload where kube-state-metrics is not read.", "LABEL"),
]
Metrics = Annotated[
    list[str] | None,
    _option("--metric", "A metric of an engine of your own: running=my_running; may be repeated.", "SIGNAL=NAME"),
]
QueryTimeout = Annotated[float, _option("--query-timeout", "How long one query may take.", "SECONDS")]


@dataclass(frozen=True, slots=True)
class PrometheusOptions:
    """What the command line says about the source; see the options of the same names."""

    server: str
    config: Path | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    days: float = DAYS
    from_text: str | None = None
    to_text: str | None = None
    step_s: int = 30
    workloads: Sequence[str] = ()
    selectors: Sequence[str] = ()
    namespaces: Sequence[str] = ()
    owner_labels: Sequence[str] = ()
    metrics: Sequence[str] = ()
    query_timeout_s: float = QUERY_TIMEOUT_S
