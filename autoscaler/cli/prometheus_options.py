"""What options about a Prometheus mean: where it is, which series are whose, and which time is to be read.

Enters: options as they were typed. Leaves: the endpoint, the search and the window, or an InputError that names the
option. Nobody is asked here.
"""

import math
import re
from datetime import UTC, datetime
from typing import Final

from autoscaler.adapters.engines.catalogue import PROFILES
from autoscaler.adapters.engines.profiles import custom, selector
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.promql import parse_matchers
from autoscaler.adapters.prometheus.questions import Window, settle_s
from autoscaler.adapters.prometheus.search import DURATIONS, OWNER_LABELS, Search, Wanted
from autoscaler.cli.prometheus_flags import PrometheusOptions
from autoscaler.errors import InputError
from autoscaler.settings.load import load_settings

MOST_STEPS: Final = 1_000_000
_DAY_S: Final = 86_400
_SLOWEST_SCRAPE_S: Final = 60
"""What Prometheus' own default is; the newest step of a slower scrape is a hole."""
_DURATION: Final = "duration_s"


def endpoint_of(options: PrometheusOptions) -> Endpoint:
    """Where to ask. Raises InputError."""
    if "://" in options.server:
        endpoint = Endpoint(options.server, options.token_file, options.ca_file)
    else:
        named = load_settings(config=options.config).prometheus
        if options.server not in named:
            known = ", ".join(sorted(named)) or "none"
            url = f" such as http://{options.server}" if re.search(r"[.:]", options.server) else ""
            raise InputError(
                f"--prometheus {options.server}: the settings name no such endpoint (known: {known}); give its "
                f"URL{url}, or the settings with --config"
            )
        if options.token_file is not None or options.ca_file is not None:
            raise InputError("--token-file, --ca-file: they go with a URL; an endpoint of the settings has its own")
        one = named[options.server]
        endpoint = Endpoint(one.url, one.bearer_token_file, one.ca_file)
    endpoint.tls()
    return endpoint


def search_of(options: PrometheusOptions, endpoint: Endpoint) -> Search:
    """What to look for. Raises InputError."""
    if options.selectors and len(options.selectors) != len(options.workloads):
        raise InputError(
            f"--selector: {len(options.selectors)} for {len(options.workloads)} of --workload; give each its own, "
            "in the same order"
        )
    wanted = []
    for number, name in enumerate(options.workloads):
        namespace, slash, rest = name.partition("/")
        if not (namespace and slash and rest) or "/" in rest:
            raise InputError(f"--workload {name!r}: write it as namespace/name")
        matchers = parse_matchers(options.selectors[number]) if options.selectors else ()
        wanted.append(Wanted(name, matchers))
    profiles, durations = dict(PROFILES), dict(DURATIONS)
    if options.metrics:
        given = dict(_metric(text) for text in options.metrics)
        if _DURATION in given:
            durations["custom"] = (selector(given.pop(_DURATION)),)
        profiles = {"custom": custom("custom", given)}
    return Search(
        endpoint, profiles, durations, tuple(options.owner_labels or OWNER_LABELS), tuple(options.namespaces),
        tuple(wanted),
    )  # fmt: skip


def window_of(options: PrometheusOptions, now_s: float) -> Window:
    """The steps to read, all of them over by now. Raises InputError."""
    step_s = options.step_s
    if not 1 <= step_s <= 3600:
        raise InputError(f"--step: {step_s} cannot be used; it must be 1 to 3600 seconds")
    newest_s = now_s - settle_s(step_s, _SLOWEST_SCRAPE_S)
    end = int((min(newest_s, _instant("--to", options.to_text)) if options.to_text else newest_s) // step_s)
    if options.from_text:
        first = int(-(-_instant("--from", options.from_text) // step_s))
    elif 0 < options.days < math.inf:
        first = int(-(-(end * step_s - options.days * _DAY_S) // step_s))
    else:
        raise InputError(f"--days: {options.days:g} cannot be used; it must be above 0")
    if not 0 < end - first <= MOST_STEPS:
        raise InputError(
            f"--from, --to, --days: {end - first} steps of {step_s} s; give a time in the past of 1 to {MOST_STEPS}"
        )
    return Window(first * step_s, step_s, end - first)


def whole_step(step_s: float) -> int:
    """The step in whole seconds, as Prometheus' instants are. Raises InputError."""
    if step_s != int(step_s):
        raise InputError(f"--step: {step_s:g} cannot be used with --prometheus; give whole seconds")
    return int(step_s)


def _metric(text: str) -> tuple[str, str]:
    signal, equals, name = text.partition("=")
    if not (signal and equals and name):
        raise InputError(f"--metric {text!r}: write SIGNAL=NAME, such as running=my_engine_running")
    return signal.strip(), name.strip()


def _instant(option: str, text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{option} {text!r}: no time; write 2026-11-01 or 2026-11-01T08:00") from error
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
