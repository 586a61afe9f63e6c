"""What the controller tells over HTTP of itself and of its workloads, put together from the rooms that know.

Enters: claims, frames, the lead, health of watches and pages. Leaves: the answers that the server asks for, at once and
from memory.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from autoscaler import __version__
from autoscaler.adapters.engines.scraper import Scraper
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.lease import Elector
from autoscaler.adapters.web.pulse import Pulse
from autoscaler.adapters.web.tls import Greeting
from autoscaler.api.claims import Claim, Reject
from autoscaler.app.health import GpuVeto
from autoscaler.app.keda_side import KedaSide
from autoscaler.app.pool_leads import PoolLeads
from autoscaler.app.problems import NOBODY, doubted, failed, lost, misset, podless, slow, unforetold, unread
from autoscaler.app.remarks import remarks, short_grace
from autoscaler.app.signals import Signals
from autoscaler.app.snapshots import Fetched
from autoscaler.app.standing import conditions
from autoscaler.app.warmups import WarmUps
from autoscaler.app.workloads import Workloads
from autoscaler.record.board import Board
from autoscaler.record.metrics import Process
from autoscaler.record.status import About, Problem, Rejected
from autoscaler.runtime.supervisor import Runtime
from autoscaler.settings.model import Settings

STALE_S: Final = 120.0
"""A watch that was not heard for longer than two bookmarks is told as trouble."""


class Facts:
    """Answers about one replica of the controller."""

    def __init__(
        self,
        *,
        settings: Settings,
        identity: str,
        cluster: Cluster,
        workloads: Workloads,
        elector: Elector,
        runtime: Runtime,
        scraper: Scraper,
        signals: Signals,
        board: Board,
        fetched: Fetched,
        pulse: Pulse,
        apis: tuple[KubeApi, ...],
        greeting: Greeting | None,
        keda: KedaSide,
        gpus: GpuVeto,
        warmups: WarmUps,
        leads: PoolLeads,
        clock_off_s: Callable[[], float],
    ) -> None:
        self._identity = identity
        self._cluster = cluster
        self._workloads = workloads
        self._elector = elector
        self._runtime = runtime
        self._scraper = scraper
        self._signals = signals
        self._settings = settings
        self._board = board
        self._fetched = fetched
        self._pulse = pulse
        self._apis = apis
        self._greeting = greeting
        self._keda = keda
        self._gpus = gpus
        self._warmups = warmups
        self._leads = leads
        self._clock_off_s = clock_off_s
        self._follower_scrapes = settings.scrape.follower_scrapes
        self._config_hash = settings.fingerprint()

    def process(self) -> Process:
        """The replica that answers, and its figures."""
        holder = self._elector.holder
        leading = self._elector.may_write()
        recorder = self._runtime.recorder
        return Process(
            identity=self._identity,
            holder="" if holder is None else holder.identity,
            holder_address="" if holder is None else holder.address,
            leading=leading,
            frozen=self._cluster.frozen is not None,
            frozen_why=self._cluster.frozen or "",
            lease_transitions=self._elector.term,
            loop_lag_s=self._pulse.lag_s,
            blind_age_s=self._runtime.blind_age_s,
            snapshot_age_s=None if leading else self._fetched.age_s,
            watch_staleness_s=self._cluster.staleness_s(),
            claims={"taken": self._cluster.intake.taken, "waiting": self._cluster.intake.waiting},
            claims_limit=self._cluster.intake.most.in_all,
            scrape_targets=self._scraper.states(),
            api_requests=sum((api.answers for api in self._apis), Counter()),
            lost={"audit": recorder.audit.lost, "journal": recorder.journal.lost},
            waiting={"audit": recorder.audit.waiting, "journal": recorder.journal.waiting},
            gpus=self._gpus.uses(self._cluster.workload_of),
            http=None if self._greeting is None else self._greeting.figures(),
            keda=self._keda.figures(),
            version=__version__,
            config_hash=self._config_hash,
        )

    def not_ready(self) -> tuple[str, ...]:
        """Why this replica cannot do its part; empty when it can. A follower is ready when it could take over."""
        why = list(self._cluster.silent(STALE_S))
        if self._elector.holder is None and not self._elector.may_write():
            why.append(f"nobody leads{f': {self._elector.error}' if self._elector.error else ''}")
        return tuple(why)

    def workloads(self) -> Mapping[str, About]:
        """All that are to be scaled; each is put together when it is asked for, as a gateway asks for one at a time."""
        return _Lazily(self._workloads.driven, self._about)

    def rejected(self) -> Sequence[Rejected]:
        """Who asks to be scaled in vain; last those who are too many, or they would hide all others."""
        return [
            Rejected(
                one.namespace, one.kind if not one.policy else "ScalingPolicy", one.name, one.reject.value, one.message
            )
            for one in sorted(self._cluster.rejections, key=lambda one: one.reject is Reject.TOO_MANY)
        ]

    def _about(self, key: str, claim: Claim) -> About:
        spec, mode, doubt = claim.spec, self._workloads.mode(claim), self._workloads.doubt(claim)
        chosen = self._workloads.chosen(claim)
        frame, act = self._board.frame(key), self._board.act(key)
        found, missing, problems = self._pages(key)
        alone = tuple(podless(self._cluster, claim.ref))
        lead_s = math.inf if frame is None else frame.warmup_p90_s
        hpa = None if claim.scaled_object is None else self._keda.answers.previews.preview(claim, lead_s)
        return About(
            kind=claim.ref.kind,
            way=claim.way.value,
            policy=claim.policy or claim.scaled_object,
            mode=mode.value,
            chosen_mode=None if claim.obstacle is not None or chosen is mode else chosen.value,
            mode_until_s=spec.mode_until_s,
            tier=spec.tier.value,
            engine=spec.engine.value,
            conditions=conditions(
                claim, mode, self._cluster.frozen, frame, act, hpa=hpa, doubt=doubt, podless=next(iter(alone), None)
            ),
            hpa=hpa,
            obstacle=None if claim.obstacle is None else claim.obstacle.message,
            remarks=(
                *claim.remarks,
                *remarks(claim, self._settings),
                *short_grace(self._workloads.grace_s(claim), self._scraper.long_request_s(key)),
                *self._denials(),
                *self._warmups.measured(self._cluster.members.pods(claim.ref)),
                *self._leads.words(key),
            ),
            found=found,
            missing=missing,
            problems=(
                *self._cluster.problems(claim.ref),
                *self._cluster.large(claim.ref),
                *misset(self._clock_off_s()),
                *doubted(doubt),
                *alone,
                *problems,
                *lost(claim, self._signals.problem(key)),
                *unforetold(self._keda.answers.previews.problem(key)),
                *self._failed_gpus(claim),
                *slow(self._warmups.stuck(self._cluster.members.pods(claim.ref))),
            ),
        )

    def _denials(self) -> Iterator[str]:
        return (f"done without: {denial}" for denial in self._cluster.denials)

    def _failed_gpus(self, claim: Claim) -> Iterator[Problem]:
        for pod in self._cluster.members.pods(claim.ref):
            health = self._gpus.failure(pod)
            if health is not None:
                yield failed(pod, health)

    def _pages(self, key: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Problem, ...]]:
        """Names found and missing on the pages of a workload, and the pages that cannot be read."""
        if not self._elector.may_write() and not self._follower_scrapes:
            return (), (), ()
        try:
            report = self._scraper.found(key)
        except KeyError:
            return (), (), (NOBODY,)
        missing = tuple(" or ".join(names) for names in report.missing.values()) if report.answering else ()
        return tuple(report.names.values()), missing, tuple(unread(report.silent))


class _Lazily(Mapping[str, About]):
    """A view of claims as what is told of them."""

    def __init__(self, claims: Mapping[str, Claim], about: Callable[[str, Claim], About]) -> None:
        self._claims = claims
        self._about = about

    def __getitem__(self, key: str) -> About:
        return self._about(key, self._claims[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def __len__(self) -> int:
        return len(self._claims)
