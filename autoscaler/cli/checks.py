"""What `headroom doctor` looks at, one finding per thing that can be wrong, each with its remedy.

Enters: a client for the cluster and the installation's settings. Leaves: findings; whatever cannot be looked at is one
too. Nothing is changed: the only things created are access reviews, which the API server does not keep.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Final

import msgspec

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.lease_object import LeaseObject
from autoscaler.adapters.kube.scope import FREEZE_KEY, GROUP, VERSION
from autoscaler.adapters.web.asked import Status
from autoscaler.api.claims import Kind, Reject
from autoscaler.api.modes import Mode
from autoscaler.cli.definitions import UPGRADE, differences, missing
from autoscaler.cli.leader import AskError, Reach, ask, ask_pod
from autoscaler.cli.loan_check import stale_loans
from autoscaler.cli.pool_check import unusable_pools
from autoscaler.cli.reviews import decoded, reviewed, served
from autoscaler.cli.rights import WITHOUT_NAMESPACE, Own, Right, of_each_rule, rights
from autoscaler.cli.rivals import rivals
from autoscaler.cli.status import state
from autoscaler.cli.work_check import WORK, untaken
from autoscaler.ports import Clock, Fault
from autoscaler.record.explain import duration
from autoscaler.record.hpa import WHERE
from autoscaler.record.status import Rejected, WorkloadStatus
from autoscaler.settings.model import Settings

SKEW_S: Final = 5.0
"""Beyond this the ages that people read are wrong; decisions go by durations and are not."""


class State(Enum):
    """How a thing is."""

    OK = "ok"
    WARN = "warn"
    """It works, and a person should know."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: what was looked at, how it is, in words, and what to do where it is not well."""

    check: str
    state: State
    words: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at, and with whose rights the controller runs."""

    api: KubeApi
    settings: Settings
    clock: Clock
    account: str | None
    """The controller's service account in Headroom's namespace; None: the rights of whoever asks are looked at."""
    server: str | None = None
    """Where the controller is asked; None: through the API server's proxy."""
    chart: bool = False
    """Whether the settings are those of the chart's release, which grants the rights then."""


async def examine(patient: Patient) -> AsyncIterator[Finding]:
    """All findings, in an order in which the first faults explain later ones."""
    reached, finding = await _api_server(patient)
    yield finding
    if not reached:
        return
    for check in (
        _clock_skew,
        _definition,
        _kinds,
        _rights,
        _pools,
        _work,
        _queues,
        _loans,
        _lease,
        _rivals,
        _freeze,
        _controller,
    ):
        try:
            found = [one async for one in check(patient)]
        except KubeError as error:
            found = [Finding(check.__name__.lstrip("_").replace("_", " "), State.FAIL, str(error), _unasked(error))]
        for one in found:
            yield one


def _unasked(error: KubeError) -> str:
    """What helps where the API server did not answer what was asked for a finding."""
    if error.fault is Fault.DENIED:
        return "have this right granted to you, or let somebody ask who has it"
    return "see how the API server is: kubectl get --raw '/readyz?verbose'; then ask again"


async def _api_server(patient: Patient) -> tuple[bool, Finding]:
    name = "API server"
    try:
        version = decoded(await patient.api.request("GET", "/version")).get("gitVersion", "of unknown version")
    except KubeError as error:
        remedy = "give --kubeconfig and --context, and check the network and your credentials"
        return False, Finding(name, State.FAIL, str(error), remedy)
    return True, Finding(name, State.OK, f"Kubernetes {version} at {patient.api.server}")


async def _clock_skew(patient: Patient) -> AsyncIterator[Finding]:
    before_s = patient.clock.now()
    said = (await patient.api.request("GET", "/version")).headers.get("Date", "")
    try:
        # The header has whole seconds and was written between the two readings of our clock.
        skew_s = parsedate_to_datetime(said).timestamp() + 0.5 - (before_s + patient.clock.now()) / 2
    except ValueError:
        words = f"the API server's answers carry no time ({said[:40]!r})"
        yield Finding("clock", State.WARN, words, "something in between takes it away; compare the clocks by hand")
        return
    if abs(skew_s) <= SKEW_S:
        yield Finding("clock", State.OK, f"within {SKEW_S:g} s of the API server's")
    else:
        side = "behind" if skew_s > 0 else "ahead of"
        words = f"this machine's clock is {duration(round(abs(skew_s)))} {side} the server's"
        yield Finding("clock", State.WARN, words, "set the clock (NTP); ages and dates read wrong until then")


async def _definition(patient: Patient) -> AsyncIterator[Finding]:
    there = await served(patient.api, f"/apis/{GROUP}/{VERSION}")
    if "scalingpolicies" not in there:
        words = "the custom resource is not installed: policies cannot be written, annotations work"
        yield Finding("ScalingPolicy", State.WARN, words, "kubectl apply -f config/crd, or install the chart's CRDs")
        return
    for old in await differences(patient.api):
        yield Finding(old.kind, State.WARN, old.words, old.remedy)
    for kind in missing(there):
        words = f"{GROUP}/{VERSION} is served without it: the definitions are of an older version"
        yield Finding(kind, State.WARN, words, UPGRADE)
    yield Finding("ScalingPolicy", State.OK, f"{GROUP}/{VERSION} is served")


async def _kinds(patient: Patient) -> AsyncIterator[Finding]:
    for kind in patient.settings.kinds:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        names = await served(patient.api, root)
        if kind.resource not in names:
            yield Finding(kind.kind, State.OK, f"{root} has none: there is nothing of this kind to scale")
        elif f"{kind.resource}/scale" not in names:
            yield Finding(kind.kind, State.FAIL, "serves no /scale", "take it off the settings' kinds")
        else:
            yield Finding(kind.kind, State.OK, "serves /scale")


async def _rights(patient: Patient) -> AsyncIterator[Finding]:
    settings = patient.settings
    kinds = [Kind(k.group, k.version, k.resource, k.kind) for k in settings.kinds]
    own = Own(settings.namespace, settings.lease.name, settings.freeze_config_map)
    pools = settings.warm_pools
    slots = pools.namespace if pools.enabled else None
    needed = of_each_rule(rights(
        kinds, settings.watch_namespaces, own, keda=settings.keda.enabled, deletion_cost=settings.deletion_cost,
        slots=slots, batch=settings.batch.enabled, authorize=settings.http.authorize,
    ))  # fmt: skip
    who, account = "you", patient.account
    if account is not None:
        who = f"system:serviceaccount:{settings.namespace}:{account}"
        try:
            allowed = await reviewed(patient.api, needed, who)
        except KubeError as error:
            if error.status != 403:
                raise
            words = "you may not ask about the controller's service account: your own rights are looked at instead"
            yield Finding("rights", State.WARN, words, "ask somebody who may create subjectaccessreviews")
            who, account = "you", None
    if account is None:
        allowed = await reviewed(patient.api, needed, None)
    denied = [right for right, may in zip(needed, allowed, strict=True) if not may]
    scaling = [right for right in needed if right.resource.endswith("/scale")]
    if scaling and settings.default_mode is not Mode.ACTIVE and set(scaling) <= set(denied):
        denied = [right for right in denied if right not in scaling]
        words = f"{who} may change no replica counts: whatever is Active will be refused"
        yield Finding("rights", State.WARN, words, "helm upgrade with rbac.scaling=true, once it may act")
    spare = [right for right in denied if _may_lack(right, settings)]
    if spare:
        denied = [right for right in denied if right not in spare]
        words = f"{who} may not read nodes: how many GPUs the cluster has is not known, and nothing else is lost"
        yield Finding("rights", State.WARN, words, "helm upgrade with rbac.nodes=true, where it may")
    for right in denied:
        granted = "helm upgrade restores the chart's roles" if patient.chart else "kubectl apply -f config/rbac"
        remedy = f"{granted}, or grant it to {who}"
        yield Finding("rights", State.FAIL, f"{who} may not {right.words}, needed to {right.why}", remedy)
    if not denied:
        number = f"all {len(needed)}" if all(allowed) else f"the other {sum(allowed)}"
        yield Finding("rights", State.OK, f"{who} may do {number} things that are needed")


def _may_lack(right: Right, settings: Settings) -> bool:
    """Whether an installation in some namespaces alone may be without it: what is of no namespace, where no pools or
    batch work need it."""
    enabled = settings.warm_pools.enabled or settings.batch.enabled
    return right.resource in WITHOUT_NAMESPACE and bool(settings.watch_namespaces) and not enabled


async def _pools(patient: Patient) -> AsyncIterator[Finding]:
    if not patient.settings.warm_pools.enabled:
        return
    number, faults = await unusable_pools(patient.api, patient.settings, patient.clock.now())
    for name, fault in faults.items():
        remedy = f"kubectl edit warmpool {name}, or the setting, before this version or these settings are put in place"
        yield Finding(f"WarmPool {name}", State.FAIL, f"cannot be used: {fault}", remedy)
    if not faults:
        yield Finding("WarmPool", State.OK, f"all {number} can be used" if number else "there is none")


async def _work(patient: Patient) -> AsyncIterator[Finding]:
    settings, account = patient.settings, patient.account
    user = None if account is None else f"system:serviceaccount:{settings.namespace}:{account}"
    for name, check in WORK.items() if settings.batch.enabled else ():
        try:
            words, remedy = await check(patient.api, user, settings.watch_namespaces)
        except KubeError as error:
            if error.status != 403:
                raise
            words = f"cannot be told whether those in queues are admitted: {error}"
            remedy = "ask somebody who may create subjectaccessreviews and list mutatingadmissionpolicies"
        yield Finding(name, State.OK if remedy is None else State.WARN, words, remedy)


async def _queues(patient: Patient) -> AsyncIterator[Finding]:
    if not patient.settings.batch.enabled:
        return
    for name, words in (await untaken(patient.api)).items():
        remedy = f"`headroom queue {name}` says who waits there; settings.limits.batch_work bounds them"
        yield Finding(f"BatchQueue {name}", State.WARN, words, remedy)


async def _loans(patient: Patient) -> AsyncIterator[Finding]:
    settings = patient.settings
    if not (settings.batch.enabled and settings.warm_pools.enabled):
        return
    stale = [one async for one in stale_loans(patient.api)]
    for words, remedy in stale:
        yield Finding("loans", State.WARN, words, remedy)
    if not stale:
        yield Finding("loans", State.OK, "every loan that is told of is held by a gang that runs")


async def _lease(patient: Patient) -> AsyncIterator[Finding]:
    settings = patient.settings
    where = f"{settings.namespace}/{settings.lease.name}"
    found = await LeaseObject(patient.api, settings.namespace, settings.lease.name).look(10.0)
    remedy = f"kubectl -n {settings.namespace} get pods; give --namespace where Headroom runs elsewhere"
    if found is None or not found.spec.holder_identity:
        words = "does not exist" if found is None else "is held by nobody"
        yield Finding("lease", State.FAIL, f"{where} {words}: no replica leads", remedy)
        return
    renewed = found.spec.renew_time
    age_s = None if renewed is None else patient.clock.now() - renewed.timestamp()
    held = f"{found.spec.holder_identity} leads, {found.spec.lease_transitions or 0} changes so far"
    if age_s is None or age_s > settings.lease.duration_s + SKEW_S:
        age = "was never renewed" if age_s is None else f"was renewed {duration(age_s)} ago"
        yield Finding("lease", State.FAIL, f"{held}, but it {age}: no replica acts", remedy)
    else:
        yield Finding("lease", State.OK, held)


async def _rivals(patient: Patient) -> AsyncIterator[Finding]:
    remedy = "never let two scale one target: give both settings.watch_namespaces that are apart, or uninstall one"
    async for words in rivals(patient.api, patient.settings, patient.clock.now()):
        yield Finding("installations", State.WARN, words, remedy)


async def _freeze(patient: Patient) -> AsyncIterator[Finding]:
    settings = patient.settings
    path = f"/api/v1/namespaces/{settings.namespace}/configmaps/{settings.freeze_config_map}"
    try:
        reason = (decoded(await patient.api.request("GET", path)).get("data") or {}).get(FREEZE_KEY, "")
    except KubeError as error:
        if error.status != 404:
            raise
        reason = ""
    if reason in {"", "false"}:
        yield Finding("freeze", State.OK, "nothing is frozen")
    else:
        yield Finding("freeze", State.WARN, f"everything is frozen: {reason}", "headroom pause --cluster --resume")


async def _controller(patient: Patient) -> AsyncIterator[Finding]:
    try:
        path, server = "/api/status", patient.server
        body = await ask_pod(patient.api, patient.settings, path) if server is None else ask(Reach(server), path)
        told = msgspec.json.decode(body, type=Status)
    except (AskError, msgspec.DecodeError) as error:
        remedy = f"kubectl -n {patient.settings.namespace} get pods, then kubectl logs of the one that leads"
        yield Finding("controller", State.FAIL, str(error), remedy)
        return
    for why in told.replica.not_ready:
        remedy = f"kubectl -n {patient.settings.namespace} logs {told.replica.identity.partition('_')[0]}"
        yield Finding("controller", State.FAIL, f"{told.replica.identity} is not ready: {why}", remedy)
    if not told.replica.not_ready:
        yield Finding("controller", State.OK, f"{told.replica.identity} answers, version {told.replica.version}")
    if not told.total:
        remedy = 'annotate a Deployment with headroom.dev/scale: "true", or write a ScalingPolicy'
        yield Finding("workloads", State.WARN, "nobody asks to be scaled", remedy)
    for row in told.workloads:
        for finding in of_workload(row):
            yield finding
    for finding in _rejected(told):
        yield finding
    if told.next is not None:
        words = f"only {len(told.workloads)} of {told.total} were looked at"
        yield Finding("workloads", State.WARN, words, "headroom status NAMESPACE/ shows the others")


def _rejected(told: Status) -> Iterator[Finding]:
    """Who asks to be scaled in vain; those who are too many are one finding of their namespace."""
    crowds: dict[str, list[Rejected]] = {}
    for one in told.rejected:
        if one.reason == Reject.TOO_MANY.value:
            crowds.setdefault(one.namespace, []).append(one)
            continue
        remedy = f"kubectl -n {one.namespace} edit {one.kind.lower()} {one.name}; its status and events say the same"
        yield Finding(f"{one.namespace}/{one.name}", State.FAIL, f"{one.kind} is not served: {one.message}", remedy)
    for namespace, crowd in crowds.items():
        first, more = crowd[0], f" and {len(crowd) - 1} more" if len(crowd) > 1 else ""
        words = f"{first.kind} {first.name}{more}: {first.message}"
        remedy = f"headroom status {namespace}/ lists those that are taken up; the events of these say the same"
        yield Finding(f"{namespace}/", State.FAIL, words, remedy)
    unseen = told.rejected_total - len(told.rejected)
    if unseen > 0:
        words = f"{unseen} more objects ask to be scaled in vain"
        yield Finding("workloads", State.FAIL, words, "mend or delete those above, then look again")


def of_workload(row: WorkloadStatus) -> Iterator[Finding]:
    """What is wrong with one workload: no metrics, names that are missing, others that scale it, a false condition."""
    about, blind = row.about, state(row) in {"no metrics", "not decided yet"}
    well = True
    for problem in about.problems:
        well = False
        yield Finding(row.workload, State.FAIL if blind else State.WARN, problem.words, problem.remedy)
    if blind and not about.problems:
        well = False
        words = "there are no metrics: replicas stay as they are" if row.age_s is not None else "not decided on yet"
        yield Finding(row.workload, State.FAIL, words, f"headroom explain {row.workload}")
    if about.missing:
        well = False
        words = f"the pages of engine {about.engine!r} lack {', '.join(about.missing)}"
        yield Finding(row.workload, State.WARN, words, "check the engine in the policy and the engine's own flags")
    if about.obstacle is not None:
        well = False
        yield Finding(row.workload, State.WARN, about.obstacle, "mend that, or pause Headroom on this workload")
    for remark in about.remarks:
        well = False
        yield Finding(row.workload, State.WARN, remark)
    if about.hpa is not None:
        behavior = about.hpa.behavior
        mended = None if behavior is None else f"in the ScaledObject's {WHERE}: {behavior}"
        for remark in about.hpa.remarks:
            well = False
            yield Finding(row.workload, State.WARN, remark, mended)
    if well:
        names = f"{len(about.found)} metrics found, " if about.found else ""
        yield Finding(row.workload, State.OK, f"{names}mode {about.mode}, {state(row)}")
