"""What an engine calls its signals: for every fact the names it has gone by, newest first.

A profile is data. `facts` reads a page through it; `catalogue` holds the engines we know; an administrator may make one
of his own from names. The first name that is on the page is used and the others are ignored, because an engine that
renames a metric emits both for a while, and their sum would be twice the truth.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from autoscaler.errors import InputError


class Fact(Enum):
    """A number a page may carry. What it is in a reading of the core is the business of `pods` and `gateways`."""

    WAITING = "waiting"
    WAITING_DEFERRED = "waiting_deferred"
    RUNNING = "running"
    REQUESTS = "requests_total"
    PROMPT_TOKENS = "prompt_tokens_total"
    GENERATION_TOKENS = "generation_tokens_total"
    KV_USED = "kv_cache_usage"
    QUEUED = "queued"
    """Requests held by a gateway."""
    DISPATCHED = "dispatched_total"
    """Requests a gateway has sent on to a pod."""
    TURNED_AWAY = "turned_away_total"
    """Requests that left a gateway's queue without reaching a pod."""

    @property
    def ratio(self) -> bool:
        """Whether it is a share, 0..1; all others are counts."""
        return self is Fact.KV_USED


class Span(Enum):
    """A latency that engines keep a histogram of."""

    QUEUE = "queue_s_p90"
    TTFT = "ttft_s_p90"
    TPOT = "tpot_s_p90"
    DURATION = "duration_s"
    """A whole request, from its arrival at the engine to its last token."""


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one metric that together are one number.

    Counts are summed over models and engines of a pod. Shares are averaged: every engine of a pod has a cache of the
    same size, so that the mean is the used share of all of them, while the fullest one would count an imbalance
    between them as demand that another pod could take.
    """

    name: str
    where: tuple[tuple[str, str], ...] = ()
    """Labels that must have these values; a label that is not there has the value "", as in PromQL."""
    unless: tuple[tuple[str, str], ...] = ()
    """Labels that must not have these values."""
    scale: float = 1.0
    """What a value is multiplied by: 0.01 for percent, 0.001 for milliseconds."""
    copies: tuple[str, ...] = ()
    """Labels whose values tell copies of one number apart: of those only the largest counts."""

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether a sample with these labels is one of them."""
        get = labels.get
        return all(get(k, "") == v for k, v in self.where) and all(get(k, "") != v for k, v in self.unless)


@dataclass(frozen=True, slots=True)
class Profile:
    """One engine's names. `needed` are the facts without which a page says nothing about demand."""

    name: str
    facts: Mapping[Fact, tuple[Series, ...]]
    histograms: Mapping[Span, tuple[Series, ...]] = field(default_factory=dict)
    """Without ``_bucket``; the scale applies to the bounds."""
    needed: tuple[Fact, ...] = (Fact.WAITING, Fact.RUNNING)
    optional: tuple[Fact, ...] = (Fact.WAITING_DEFERRED,)
    """Facts that only newer versions or some set-ups show: a page without them lacks nothing."""


_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?")
_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"([^"\\]*)"\s*(?:,|$)')


def selector(text: str, scale: float = 1.0) -> Series:
    """The series that ``name{label="value"}`` names. Raises InputError when it is not of that form."""
    found = _SELECTOR.fullmatch(text.strip())
    if found is None:
        raise InputError(f'metric {text!r}: write a name, or a name with labels: my_queue{{state="waiting"}}')
    where, at, inner = [], 0, found[2] or ""
    while at < len(inner):
        matcher = _MATCHER.match(inner, at)
        if matcher is None:
            raise InputError(f'metric {text!r}: labels are written label="value", separated by commas')
        where.append((matcher[1], matcher[2]))
        at = matcher.end()
    return Series(found[1], tuple(where), scale=scale)


def custom(name: str, metrics: Mapping[str, str], *, kv_percent: bool = False) -> Profile:
    """A profile from an administrator's names: fact (``waiting``, ``queue_s_p90``, ...) -> selector.

    Histograms are named without ``_bucket`` and are in seconds; `kv_percent` says that the cache's use is 0..100.
    Raises InputError for a fact that does not exist, or when none of the facts is one a decision could rest on.
    """
    facts: dict[Fact, tuple[Series, ...]] = {}
    histograms: dict[Span, tuple[Series, ...]] = {}
    known = {fact.value for fact in _OF_PODS} | {span.value for span in Span}
    for key, text in metrics.items():
        if key not in known:
            raise InputError(f"profile {name!r}: {key!r} is no signal; the signals are {', '.join(sorted(known))}")
        if key in {span.value for span in Span}:
            histograms[Span(key)] = (selector(text),)
        else:
            fact = Fact(key)
            facts[fact] = (selector(text, 0.01 if kv_percent and fact.ratio else 1.0),)
    needed = tuple(fact for fact in (Fact.WAITING, Fact.RUNNING, Fact.REQUESTS) if fact in facts)
    if not needed:
        raise InputError(f"profile {name!r}: name at least one of waiting, running and requests_total")
    return Profile(name, facts, histograms, needed)


_OF_PODS = frozenset(Fact) - {Fact.QUEUED, Fact.DISPATCHED, Fact.TURNED_AWAY}
