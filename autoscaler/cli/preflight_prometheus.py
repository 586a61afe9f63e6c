"""The past of a cluster out of Prometheus, for `headroom preflight`: options in, histories out, one after the other.

What was read is kept in a folder, so that a run which is cut goes on from there; the window of a run that did not
finish is kept with it, because "the last fourteen days" would be others by then.
"""

import asyncio
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import typer

from autoscaler.adapters.engines.catalogue import PROFILES
from autoscaler.adapters.engines.profiles import custom, selector
from autoscaler.adapters.prometheus.archive import Archive
from autoscaler.adapters.prometheus.chunks import Chunks, replace_file
from autoscaler.adapters.prometheus.discovery import discover
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.history import remembering
from autoscaler.adapters.prometheus.patience import Persistence
from autoscaler.adapters.prometheus.promql import parse_matchers
from autoscaler.adapters.prometheus.questions import Window, questions, settle_s
from autoscaler.adapters.prometheus.search import DURATIONS, OWNER_LABELS, Discovered, Search, Wanted
from autoscaler.cli.progress import Meter
from autoscaler.errors import InputError
from autoscaler.preflight.history import WorkloadHistory
from autoscaler.preflight.recorded import recorded
from autoscaler.runtime.clock import WallClock
from autoscaler.settings.load import load_settings

DAYS: Final = 14.0
MOST_STEPS: Final = 1_000_000
_DAY_S: Final = 86_400
_SLOWEST_SCRAPE_S: Final = 60
"""What Prometheus' own default is; the newest step of a slower scrape is a hole."""
_UNFINISHED: Final = "window.json"
_DURATION: Final = "duration_s"


def _option(name: str, help_text: str, metavar: str) -> Any:
    return typer.Option(name, help=help_text, metavar=metavar)


Server = Annotated[
    str | None, _option("--prometheus", "A Prometheus: its URL, or the name that the settings give it.", "URL|NAME")
]
Config = Annotated[Path | None, _option("--config", "Settings that name it; else HEADROOM_CONFIG.", "FILE")]
TokenFile = Annotated[Path | None, _option("--token-file", "With a URL: a file with a bearer token.", "FILE")]
CaFile = Annotated[Path | None, _option("--ca-file", "With a URL: certificates (PEM) to check its own with.", "FILE")]
Days = Annotated[float, _option("--days", "How far back, where --from does not say.", "DAYS")]
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
    query_timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was read: the histories, made one at a time from disk, and what a reader should know."""

    window: Window
    workloads: int
    histories: Iterator[WorkloadHistory]
    notes: tuple[str, ...]
    asked: int
    """Requests that this run sent."""
    kept: int
    """Parts that a run before had left."""


def read_prometheus(options: PrometheusOptions, state: Path) -> Fetched:
    """The histories of all workloads that are found or wanted; `state` keeps what was read.

    Raises InputError for options that cannot be used, PortError where Prometheus cannot be read, KeyboardInterrupt
    where a person cuts it, after a line that says what is kept.
    """
    endpoint = endpoint_of(options)
    chunks = Chunks(state)
    return asyncio.run(_read(options, endpoint, search_of(options, endpoint), chunks, state))


def endpoint_of(options: PrometheusOptions) -> Endpoint:
    """Where to ask. Raises InputError."""
    if "://" in options.server:
        endpoint = Endpoint(options.server, options.token_file, options.ca_file)
    else:
        named = load_settings(config=options.config).prometheus
        if options.server not in named:
            known = ", ".join(sorted(named)) or "none"
            raise InputError(
                f"--prometheus {options.server}: the settings name no such endpoint (known: {known}); give its URL, "
                "or the settings with --config"
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


async def _read(options: PrometheusOptions, endpoint: Endpoint, search: Search, chunks: Chunks, state: Path) -> Fetched:
    clock = WallClock()
    window, resumed = _pinned(state, options, window_of(options, clock.now()))
    async with remembering(endpoint, timeout_s=options.query_timeout_s) as history:
        persistence = Persistence(clock, np.random.default_rng())
        with Meter(1) as meter:
            meter.begin("looking for workloads")
            found = await discover(history, persistence, search, window)
        archive = Archive(history, chunks, persistence)
        with Meter(1) as meter:
            await _fetch(archive, found, window, meter)
    (state / _UNFINISHED).unlink(missing_ok=True)
    chunks.forget_others()
    notes = (*resumed, *found.notes)
    histories = _histories(archive, found, window)
    return Fetched(window, len(found.subjects), histories, notes, persistence.asked, archive.kept)


async def _fetch(archive: Archive, found: Discovered, window: Window, meter: Meter) -> None:
    count, reached = len(found.subjects), [0, 0]

    def tell(done: int, parts: int) -> None:
        reached[:] = done, parts
        meter.move(done / parts if parts else 1.0)

    meter.begin(f"reading {count} workload{'s' if count != 1 else ''} from Prometheus")
    asked = [question for subject in found.subjects for question in questions(subject, window)]
    try:
        await archive.fetch(asked, tell)
    except asyncio.CancelledError:
        done, parts = reached
        print(f"interrupted: {done} of {parts} parts are kept; the same command goes on from there", file=sys.stderr)
        raise


def _histories(archive: Archive, found: Discovered, window: Window) -> Iterator[WorkloadHistory]:
    for subject in found.subjects:
        answers = {question.name: (question, archive.past(question)) for question in questions(subject, window)}
        yield recorded(subject, window, answers)


class _Run(msgspec.Struct, frozen=True):
    """A run that has not finished: what was asked for in words, and the window that this meant."""

    asked: tuple[str, str, str, float, int]
    window: Window


def _pinned(state: Path, options: PrometheusOptions, window: Window) -> tuple[Window, tuple[str, ...]]:
    """The window of the run that was cut, where the same was asked for; else `window`, noted for the next run."""
    asked = (options.server, options.from_text or "", options.to_text or "", options.days, options.step_s)
    path = state / _UNFINISHED
    try:
        before = msgspec.json.decode(path.read_bytes(), type=_Run)
    except (OSError, msgspec.DecodeError):
        before = None
    if before is not None and before.asked == asked:
        end = f"{datetime.fromtimestamp(before.window.end_s, UTC):%Y-%m-%d %H:%M} UTC"
        return before.window, (f"goes on with a run that was cut: the window ends at {end}",)
    replace_file(path, msgspec.json.encode(_Run(asked, window)))
    return window, ()


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
