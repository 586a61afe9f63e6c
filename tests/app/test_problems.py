"""What cannot be read of a workload, each with a remedy of its own."""

from dataclasses import replace

import pytest
from msgspec import structs

from autoscaler.adapters.engines.dcgm import GpuHealth
from autoscaler.adapters.engines.workload import Silent
from autoscaler.adapters.kube.meta import Owner
from autoscaler.api.annotations import read_annotations
from autoscaler.api.claims import Claim, Doubt, TargetRef, Way
from autoscaler.app.problems import MOST_PAGES, NOBODY, doubted, failed, lost, misset, podless, slow, unforetold, unread
from autoscaler.ports import Fault
from autoscaler.record.status import Problem
from tests.app.scene import Followed, pod

REF = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "chat", "t1")


def claim() -> Claim:
    spec = read_annotations({"headroom.dev/scale": "true", "headroom.dev/prometheus": "main"})
    assert spec is not None
    return Claim(REF, spec, Way.ANNOTATION, None, 1)


def silent(pods: int, fault: Fault = Fault.TIMEOUT) -> list[Silent]:
    return [Silent(f"chat-{number}", fault, "no whole page within 1 s") for number in range(pods)]


DEAD = GpuHealth("prod/chat-1", "gpu-3", 100.0, 1, None, None, None, 79, 90.0)

TOLD: dict[str, tuple[list[Problem], str, str]] = {
    "a doubt": (
        list(doubted(Doubt(True, "its mode may be another by now", "mend the policy"))), "nothing is done",
        "mend the policy",
    ),
    "Prometheus": (list(lost(claim(), "prometheus main: timeout")), "prometheus main", "prometheus.main has in the"),
    "a bug in the preview": (list(unforetold("a bug: KeyError")), "a bug", "report it"),
    "a dead GPU": ([failed("prod/chat-1", DEAD)], "GPU error 79", "kubectl drain gpu-3"),
    "a start that hangs": (
        list(slow(["prod/chat-9 is not started for 9 min, much longer than such starts take"])), "not started",
        "kubectl -n prod describe pod chat-9",
    ),
    "a clock put forward": (list(misset(300.0)), "it is 5 min ahead of the time that is followed", "timedatectl"),
    "a clock put back": (list(misset(-12.0)), "it is 12 s behind the time that is followed", "timedatectl"),
    "nobody to ask": ([NOBODY], "no serving pod", "name a gateway"),
}  # fmt: skip


@pytest.mark.parametrize(("problems", "words", "remedy"), TOLD.values(), ids=TOLD)
def test_a_problem_names_its_own_remedy(problems: list[Problem], words: str, remedy: str) -> None:
    (problem,) = problems
    assert words in problem.words
    assert remedy in problem.remedy


def test_a_clock_that_a_time_server_corrects_is_no_problem() -> None:
    assert list(misset(9.9)) == list(misset(-9.9)) == []


@pytest.mark.parametrize(
    ("kind", "found"), [("Team", True), ("Deployment", False), ("Rollout", False), ("ReplicaSet", False)]
)
def test_a_kind_whose_pods_something_else_owns_is_told_of_with_what_to_scale_instead(kind: str, found: bool) -> None:
    cluster = Followed()
    told = list(podless(cluster, replace(REF, kind=kind)))  # type: ignore[arg-type]  # the parts of it that are used
    assert bool(told) is found
    for problem in told:
        assert problem.words == "no pod of Team prod/chat is found: none names it as its controller"
        assert "Controlled By" in problem.remedy


def test_a_kind_that_owns_its_pods_itself_has_them() -> None:
    cluster = Followed()
    made = pod("chat-0")
    owner = Owner("example.com/v1", "Team", "chat", "t1", controller=True)
    cluster.add(structs.replace(made, metadata=structs.replace(made.metadata, owner_references=(owner,))))
    assert list(podless(cluster, replace(REF, kind="Team"))) == []  # type: ignore[arg-type]  # as above


def test_whatever_is_wrong_with_a_page_it_has_a_remedy_and_no_two_have_the_same() -> None:
    remedies = {fault: next(iter(unread(silent(1, fault)))).remedy for fault in Fault}
    assert len(set(remedies.values())) == len(Fault)


def test_of_many_silent_pods_a_few_are_told_and_how_many_more_there_are() -> None:
    told = list(unread(silent(12)))
    assert [problem.words for problem in told[:2]] == [
        "chat-0: timeout: no whole page within 1 s", "chat-1: timeout: no whole page within 1 s",
    ]  # fmt: skip
    assert len(told) == MOST_PAGES + 1
    assert told[-1].words == "and 7 more"


def test_where_nothing_is_wrong_nothing_is_told() -> None:
    assert [*doubted(None), *lost(claim(), None), *unforetold(None), *unread([]), *slow([])] == []
