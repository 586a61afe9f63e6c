"""Which workloads a Prometheus knows of: whose pods expose the series of an engine.

Enters: the labels of engines' series over a window, and what kube-state-metrics says of pods. Leaves: one `Subject` per
workload, with notes on what was guessed. A pod belongs to the owner of its owner (Pod -> ReplicaSet -> Deployment);
without kube-state-metrics, to what a label of its series names, else to what its own name begins with.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoscaler.adapters.engines.catalogue import LLM_D_EPP
from autoscaler.adapters.engines.profiles import Fact, Profile
from autoscaler.adapters.prometheus.answers import AnswerError, Trouble
from autoscaler.adapters.prometheus.history import History
from autoscaler.adapters.prometheus.owners import Owner, Owners, owners_of, replica_gpus, replica_starts, standing
from autoscaler.adapters.prometheus.patience import Persistence, Persistent
from autoscaler.adapters.prometheus.promql import POD_NAMES, any_of, exactly, written
from autoscaler.adapters.prometheus.questions import Subject, Window
from autoscaler.adapters.prometheus.search import Discovered, Search, Wanted
from autoscaler.errors import InputError
from autoscaler.ports import Fault

MAX_SERIES: Final = 100_000
"""Engines' series of one window; 200 workloads of ten pods, replaced daily for two weeks, have 60,000."""
_SCRAPE_WINDOW_S: Final = 900
DEFAULT_SCRAPE_S: Final = 30
_LOOKS: Final = 8
"""Instants of the window at which it is looked how often pods are scraped."""

Labels = Mapping[str, str]


@dataclass(slots=True)
class _Group:
    """The series that are one workload's."""

    owner: Owner | None
    matchers: tuple[tuple[str, str, str], ...]
    series: list[Labels] = field(default_factory=list)


async def discover(history: History, persistence: Persistence, search: Search, window: Window) -> Discovered:
    """The workloads of a window. Raises PortError; InputError where nothing is found, or not what was wanted."""
    look = _Look(Persistent(history, persistence), search, window)
    by_name = [one for one in search.wanted if not one.matchers]
    groups: dict[str, _Group] = {}
    notes: list[str] = []
    if by_name or not search.wanted:
        namespaces = search.namespaces or sorted({one.workload.partition("/")[0] for one in by_name})
        found = await look.everywhere(namespaces, notes)
        groups.update(_only(found, by_name) if by_name else found)
    for one in search.wanted:
        if one.matchers:
            groups[one.workload] = await look.matched(one)
    if not groups:
        names = ", ".join(sorted(search.profiles))
        raise InputError(
            f"{history.url}: no series of a known engine ({names}) in the window; look at another time or namespace, "
            "or name the engine's metrics with --metric"
        )
    subjects = await look.subjects(groups, notes)
    return Discovered(subjects, tuple(notes))


class _Look:
    """One search."""

    def __init__(self, history: Persistent, search: Search, window: Window) -> None:
        self._history, self._search, self._window = history, search, window
        engines = {name: one for name, one in search.profiles.items() if Fact.QUEUED not in one.facts}
        self._profile_of = {
            series.name: name
            for name, profile in engines.items()
            for fact in (Fact.RUNNING, Fact.WAITING, Fact.REQUESTS)
            for series in profile.facts.get(fact, ())
        }

    async def everywhere(self, namespaces: Sequence[str], notes: list[str]) -> dict[str, _Group]:
        """All workloads of these namespaces, or of all."""
        label = self._search.endpoint.namespace_label
        within = ((label, "=~", _either(namespaces)),) if namespaces else ()
        series = await self._engines(within)
        spaces = sorted({self._space(one) for one in series})
        owners = await owners_of(self._history, spaces, self._window, notes)
        groups: dict[str, _Group] = {}
        for one in series:
            owner, matchers = self._owner(one, owners)
            key = f"{self._space(one) or '-'}/{owner.name}"
            groups.setdefault(key, _Group(owner, matchers)).series.append(one)
        pods: defaultdict[str, set[str]] = defaultdict(set)
        for one in series:
            pods[self._space(one)].add(self._pod(one))
        for group in groups.values():
            group.matchers = group.matchers or self._of_pods(group, pods[self._space(group.series[0])])
        return groups

    async def matched(self, wanted: Wanted) -> _Group:
        """What a person's own matchers find, within the workload's namespace unless they name another."""
        label = self._search.endpoint.namespace_label
        matchers = wanted.matchers
        if all(one[0] != label for one in matchers):
            matchers = ((label, "=", wanted.workload.partition("/")[0]), *matchers)
        found = await self._engines(matchers)
        if not found:
            raise InputError(
                f"--workload {wanted.workload}: {{{written(matchers)}}} matches no series of a known engine in the "
                "window; check it in Prometheus, or name the engine's metrics with --metric"
            )
        return _Group(None, matchers, list(found))

    async def subjects(self, groups: Mapping[str, _Group], notes: list[str]) -> tuple[Subject, ...]:
        """What is asked about each of them."""
        jobs = sorted({one.get("job", "") for group in groups.values() for one in group.series})
        spaces = sorted({self._space(one) for group in groups.values() for one in group.series})
        scrapes = await self._scrape_intervals(sorted({self._name(g) for g in groups.values()}), spaces, jobs, notes)
        gpus = await replica_gpus(self._history, spaces, self._window, notes)
        starts = await replica_starts(self._history, spaces, self._window, notes)
        gateways = await self._gateways(spaces)
        made = []
        for workload, group in sorted(groups.items()):
            profile = self._profile(workload, group, notes)
            pods = {(self._space(one), self._pod(one)) for one in group.series}
            made.append(
                Subject(
                    workload, written(group.matchers), profile,
                    durations=self._search.durations.get(profile.name, ()),
                    replica_label=self._replica_label(group.series),
                    scrape_s=max(scrapes.get(one.get("job", ""), DEFAULT_SCRAPE_S) for one in group.series),
                    gateway=gateways.get(workload),
                    gateway_profile=LLM_D_EPP if workload in gateways else None,
                    standing=standing(group.owner, workload.partition("/")[0]),
                    gpus_per_replica=_most_common(gpus[pod] for pod in pods if pod in gpus),
                    starts_s=tuple(sorted(starts[pod] for pod in pods if pod in starts)),
                    facts=_facts(group),
                )
            )  # fmt: skip
        return tuple(made)

    async def _engines(self, matchers: Iterable[tuple[str, str, str]]) -> list[dict[str, str]]:
        named = f"__name__=~{any_of(self._profile_of)}"
        within = ",".join(filter(None, (named, written(matchers))))
        found = await self._history.series([f"{{{within}}}"], start_s=self._window.start_s, end_s=self._window.end_s)
        if len(found) > MAX_SERIES:
            text = (
                f"{self._history.url}: {len(found)} series of engines in the window, more than {MAX_SERIES}; look at "
                "fewer with --namespace or --workload, or at a shorter time"
            )
            raise AnswerError(Trouble.TOO_MANY, Fault.INVALID, text)
        return found

    def _space(self, series: Labels) -> str:
        return series.get(self._search.endpoint.namespace_label, "")

    def _pod(self, series: Labels) -> str:
        return series.get(self._search.endpoint.pod_label, "")

    def _owner(self, series: Labels, owners: Owners) -> tuple[Owner, tuple[tuple[str, str, str], ...]]:
        """Whose a series is, and matchers where these are not those of its pods."""
        space, pod = self._space(series), self._pod(series)
        known = owners.get((space, pod)) if pod else None
        if known is not None:
            return known, ()
        within = (self._search.endpoint.namespace_label, "=", space)
        for label in (*self._search.owner_labels, *(() if pod else ("job", "instance"))):
            if series.get(label):
                return Owner(None, series[label]), (within, (label, "=", series[label]))
        for kind, ending in POD_NAMES.items():
            base = re.fullmatch(f"(.+?){ending}", pod)
            if base is not None:
                return Owner(kind, base[1]), ()
        return Owner(None, pod or "unnamed"), ()

    def _of_pods(self, group: _Group, neighbours: Iterable[str]) -> tuple[tuple[str, str, str], ...]:
        """Matchers for the pods of a workload: how its controller names them if that is nobody else's, else a list."""
        endpoint, owner = self._search.endpoint, group.owner
        within = (endpoint.namespace_label, "=", self._space(group.series[0]))
        pods = {self._pod(one) for one in group.series}
        ending = POD_NAMES.get(owner.kind or "") if owner is not None else None
        if owner is not None and ending is not None:
            form = re.compile(re.escape(owner.name) + ending)
            if pods == {pod for pod in neighbours if form.fullmatch(pod)}:
                return within, (endpoint.pod_label, "=~", exactly(owner.name) + ending)
        return within, (endpoint.pod_label, "=~", _either(pods))

    def _profile(self, workload: str, group: _Group, notes: list[str]) -> Profile:
        seen = Counter(self._profile_of[one["__name__"]] for one in group.series)
        name = seen.most_common(1)[0][0]
        if len(seen) > 1:
            notes.append(f"{workload}: its pods expose metrics of {', '.join(sorted(seen))}; those of {name} are read")
        return self._search.profiles[name]

    def _name(self, group: _Group) -> str:
        return Counter(one["__name__"] for one in group.series).most_common(1)[0][0]

    def _replica_label(self, series: Sequence[Labels]) -> str:
        return self._search.endpoint.pod_label if all(self._pod(one) for one in series) else "instance"

    async def _scrape_intervals(
        self, names: Sequence[str], spaces: Sequence[str], jobs: Sequence[str], notes: list[str]
    ) -> dict[str, int]:
        """Job -> seconds between two samples, from how many there are in a quarter of an hour."""
        within = written([(self._search.endpoint.namespace_label, "=~", _either(spaces))])
        counts = " or ".join(f"max by(job)(count_over_time({name}{{{within}}}[{_SCRAPE_WINDOW_S}s]))" for name in names)
        step_s = max(1, (self._window.end_s - self._window.start_s) // _LOOKS)
        try:
            found = await self._history.range(
                counts, start_s=self._window.start_s + step_s, end_s=self._window.end_s, step_s=step_s
            )
        except AnswerError as error:
            if error.fault is Fault.DENIED:
                raise
            notes.append(f"how often pods are scraped could not be asked: {error}")
            found = ()
        most = {one.labels.get("job", ""): float(one.values.max()) for one in found if one.values.size}
        unknown = ", ".join(job or "-" for job in jobs if job not in most)
        if unknown:
            notes.append(f"how often is not known, {DEFAULT_SCRAPE_S} s are assumed, for what is scraped by: {unknown}")
        return {job: max(1, -int(-_SCRAPE_WINDOW_S // count)) for job, count in most.items() if count > 0}

    async def _gateways(self, spaces: Sequence[str]) -> dict[str, str]:
        """Workload -> matchers of the endpoint picker whose inference pool has the workload's name."""
        label = self._search.endpoint.namespace_label
        names = [series.name for series in LLM_D_EPP.facts[Fact.QUEUED]]
        found = await self._history.series(
            [f"{{__name__=~{any_of(names)},{written([(label, '=~', _either(spaces))])}}}"],
            start_s=self._window.start_s, end_s=self._window.end_s,
        )  # fmt: skip
        pods: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for one in found:
            pool = one.get("inference_pool") or one.get("name", "")
            pods[self._space(one), pool].add(self._pod(one))
        # A picker's counters of requests name no pool, and an empty alternative matches a label that is not there.
        return {
            f"{space}/{pool}": written(
                [
                    (label, "=", space),
                    (self._search.endpoint.pod_label, "=~", _either(its)),
                    ("inference_pool", "=~", f"{exactly(pool)}|"),
                ]
            )
            for (space, pool), its in pods.items()
        }


def _only(found: Mapping[str, _Group], wanted: Sequence[Wanted]) -> dict[str, _Group]:
    for one in wanted:
        if one.workload not in found:
            listed = ", ".join(sorted(found)[:8]) or "none"
            raise InputError(
                f"--workload {one.workload}: Prometheus has no engine's series of it in the window; found: {listed}. "
                "Say which are its own with --selector"
            )
    return {one.workload: found[one.workload] for one in wanted}


def _facts(group: _Group) -> dict[str, str]:
    models = {one["model_name"] for one in group.series if one.get("model_name")}
    facts = {"model": next(iter(models))} if len(models) == 1 else {}
    return facts if group.owner is None or group.owner.kind is None else {**facts, "kind": group.owner.kind}


def _most_common(values: Iterable[float]) -> float | None:
    counted = Counter(values).most_common(1)
    return counted[0][0] if counted else None


def _either(values: Iterable[str]) -> str:
    return "|".join(sorted(exactly(value) for value in values))
