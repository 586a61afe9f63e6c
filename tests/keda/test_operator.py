"""KEDA's real operator, adapter and HPA against our external scaler: what they make of every kind of answer.

The answers are the test's own, so that each count and each refusal comes at a known instant; `test_whole_controller`
has the whole controller behind them. HPA pulls every 2 s here and KEDA polls every 2 s, instead of 15 s and 30 s.
"""

import base64
import time
from pathlib import Path

import pytest

from autoscaler.adapters.keda.answers import Refusal, Refused, Served
from autoscaler.adapters.keda.certificates import Tls
from tests.cluster.keda import Keda
from tests.cluster.processes import wait_for
from tests.cluster.scaler import Scaler
from tests.conftest import ROOT
from tests.keda.certs import Authority
from tests.keda.target import FALLBACK, SILENT, SOON_S, Target, settled

pytestmark = [pytest.mark.real, pytest.mark.needs("keda"), pytest.mark.timeout(240)]

ALWAYS_THREE = {
    "type": "cron",
    "metadata": {"timezone": "UTC", "start": "0 0 1 1 *", "end": "59 23 31 12 *", "desiredReplicas": "3"},
}
AT_ONCE_S = 5.0
"""For what KEDA does by a push alone: its next poll is an hour away, and HPA rests at zero."""


def test_from_zero_to_one_to_n_up_down_and_to_zero_hpa_has_exactly_what_was_told(chat: Target) -> None:
    chat.make(0, 0)
    for replicas in (5, 19, 20, 18, 3, 4):
        chat.say(replicas)
        assert chat.comes_to(replicas) == replicas
        assert chat.told() == replicas
    chat.say(0)
    assert chat.comes_to(0) == 0
    assert chat.counts_over(5) == {0}


def test_demand_is_divided_back_into_the_count(chat: Target) -> None:
    chat.make(1, Served(5, 1, 37), metadata={"value": "demand", "perReplica": "8"})
    assert chat.comes_to(5) == 5
    assert chat.told("s0-headroom-demand") == 37
    chat.say(Served(7, 5, 400))
    assert chat.comes_to(7) == 7
    assert chat.told("s0-headroom-demand") == 56


def test_a_push_wakes_from_zero_at_once_and_hpas_next_pull_brings_the_rest(chat: Target) -> None:
    chat.make(0, 0, push=True, pollingInterval=3600)
    wait_for(lambda: chat.status().get("externalMetricNames"), SOON_S, "KEDA to set it up")
    wait_for(lambda: chat.scaler.book.counts.streams >= 1, SOON_S, "KEDA to open its stream")
    chat.say(6, 0)
    assert chat.comes_to(1, AT_ONCE_S) == 1
    assert chat.comes_to(6) == 6


def test_a_push_wakes_from_idle_to_the_scaledobjects_minimum_at_once(chat: Target) -> None:
    chat.make(0, 0, push=True, pollingInterval=3600, idleReplicaCount=0, minReplicaCount=4)
    wait_for(lambda: chat.scaler.book.counts.streams >= 1, SOON_S, "KEDA to open its stream")
    wait_for(lambda: chat.status().get("externalMetricNames"), SOON_S, "KEDA to set it up")
    chat.say(6, 0)
    assert chat.comes_to(4, AT_ONCE_S) == 4
    assert chat.comes_to(6) == 6


def test_a_push_that_keda_drops_is_said_again(chat: Target) -> None:
    """The workload is wanted from the first second: KEDA's stream opens before it has noted the metric's name."""
    chat.make(0, Served(3, 0), push=True, pollingInterval=3600)
    assert chat.comes_to(3) == 3


def test_without_a_fallback_a_refusal_changes_nothing_however_long_at_a_minimum(chat: Target) -> None:
    chat.make(8, 8, minReplicaCount=1)
    assert settled(chat.told, 8) == 8
    chat.say(SILENT)
    assert chat.counts_over(15) == {8}
    assert settled(lambda: chat.condition("Ready"), "False") == "False"
    said = "the metrics could not be read for 130 s"
    assert settled(lambda: said in chat.events(), wanted=True), "an event of KEDA's repeats our words"
    chat.say(9)
    assert chat.comes_to(9) == 9


def test_a_refusal_brings_kedas_fallback_and_an_answer_ends_it(chat: Target) -> None:
    chat.make(3, 3, fallback=FALLBACK)
    assert settled(chat.told, 3) == 3
    chat.say(SILENT)
    assert chat.comes_to(6) == 6
    assert chat.condition("Fallback") == "True"
    chat.say(4)
    assert chat.comes_to(4) == 4
    assert settled(lambda: chat.condition("Fallback"), "False") == "False"


def test_a_server_that_is_gone_shrinks_nothing_and_its_return_is_noticed(chat: Target) -> None:
    """Edge case 2, kedacore/keda#8056: what cannot be reached at GetMetricSpec counts as no failure, and so no fallback
    fires. A replica that answers UNAVAILABLE does better than none.
    """
    chat.make(5, 5, push=True, fallback=FALLBACK, minReplicaCount=1)
    assert settled(chat.told, 5) == 5
    chat.scaler.stop()
    assert chat.counts_over(20) == {5}
    assert chat.condition("Fallback") != "True"
    chat.scaler.start()
    chat.say(7)
    assert chat.comes_to(7, 30) == 7


def test_at_zero_an_unreachable_server_leaves_it_at_zero_and_a_refusal_wakes_it_where_a_fallback_says_so(
    chat: Target,
) -> None:
    """Edge case 34, kedacore/keda#7239, #7411 and #7244."""
    chat.make(0, 0, fallback=FALLBACK)
    assert settled(lambda: chat.condition("Ready"), "True") == "True"
    chat.scaler.stop()
    assert chat.counts_over(10) == {0}
    chat.scaler.start()
    chat.say(SILENT)
    assert chat.comes_to(6, 30) == 6


def test_at_zero_a_refusal_without_a_fallback_leaves_it_at_zero(chat: Target) -> None:
    """Edge case 34, the other half of it."""
    chat.make(0, 0)
    assert settled(lambda: chat.condition("Ready"), "True") == "True"
    chat.say(SILENT)
    assert chat.counts_over(10) == {0}
    chat.say(2)
    assert chat.comes_to(2) == 2


def test_a_server_that_is_started_again_within_two_seconds_is_not_missed(chat: Target) -> None:
    chat.make(5, 5, push=True, minReplicaCount=1)
    assert settled(chat.told, 5) == 5
    for _ in range(3):
        chat.scaler.stop()
        chat.scaler.start()
        assert chat.counts_over(3) == {5}
    chat.say(6)
    assert chat.comes_to(6) == 6


def test_an_operator_that_is_killed_and_started_again_changes_nothing(chat: Target) -> None:
    chat.make(5, 5, push=True)
    assert settled(chat.told, 5) == 5
    chat.keda.restart_operator()
    assert chat.counts_over(10) == {5}
    chat.say(8)
    assert chat.comes_to(8, 40) == 8


@pytest.mark.parametrize(
    ("annotation", "value", "becomes"),
    [
        ("paused", "true", {2: 5, 8: 5}),
        ("paused_replicas", "4", {2: 4, 8: 4}),
        ("paused_scale_in", "true", {2: 5, 8: 8}),
        ("paused_scale_out", "true", {2: 2, 8: 5}),
        ("force_activation", "true", {0: 1, 8: 8}),
    ],
)
def test_kedas_own_pauses_are_kept(chat: Target, annotation: str, value: str, becomes: dict[int, int]) -> None:
    chat.make(5, 5)
    assert settled(chat.told, 5) == 5
    for told, expected in becomes.items():
        chat.annotate(**{annotation: value})
        time.sleep(5)
        chat.say(told)
        assert chat.comes_to(expected) == expected
        assert chat.counts_over(5) == {expected}
        chat.say(5)
        chat.annotate(**{annotation: None})
        assert chat.comes_to(5) == 5


def test_beside_another_trigger_each_is_right_at_hpa_and_the_larger_one_counts(chat: Target) -> None:
    """Edge case 17, kedacore/http-add-on#1659."""
    chat.make(1, 7, beside=ALWAYS_THREE)
    assert chat.comes_to(7) == 7
    chat.say(2)
    assert chat.comes_to(3) == 3
    assert chat.told() == 2


def test_beside_another_trigger_our_refusal_lets_nothing_shrink(chat: Target) -> None:
    """Edge case 17: the spec is still given, so HPA keeps our metric, and one metric that fails forbids to shrink."""
    chat.make(1, 7, beside=ALWAYS_THREE)
    assert chat.comes_to(7) == 7
    chat.say(Refused(Refusal.INVALID, "metadata.perReplca: unknown key; did you mean metadata.perReplica?"))
    chat.annotate(changed="yes")
    assert chat.counts_over(12) == {7}
    assert "did you mean metadata.perReplica?" in chat.events()


def test_beside_another_trigger_a_mistyped_measure_lets_nothing_shrink(chat: Target) -> None:
    """The HPA is written anew with each edit: were our spec refused, ours would be left out of it."""
    chat.make(1, 7, beside=ALWAYS_THREE)
    assert chat.comes_to(7) == 7
    chat.set_trigger(value="demand", perReplica="8x")
    assert chat.counts_over(12) == {7}
    assert "s0-headroom-replicas" in chat.metrics()
    assert "metadata.perReplica: '8x' is out of range" in chat.events()
    chat.say(Served(5, 7, 37))
    chat.set_trigger(perReplica="8")
    assert chat.comes_to(5) == 5
    assert "s0-headroom-demand" in chat.metrics()


def test_beside_another_trigger_nothing_shrinks_while_our_server_is_gone_if_scale_in_is_paused(chat: Target) -> None:
    """What the page on KEDA says to do: else the other trigger decides alone from our return to KEDA's next write."""
    chat.make(1, 7, beside=ALWAYS_THREE)
    assert chat.comes_to(7) == 7
    chat.scaler.stop()
    chat.annotate(paused_scale_in="true")
    chat.keda.restart_operator()
    assert chat.counts_over(12) == {7}
    assert "s0-headroom-replicas" not in chat.metrics()
    chat.scaler.start()
    chat.say(5)
    assert chat.counts_over(8) == {7}
    chat.annotate(paused_scale_in=None)
    assert chat.comes_to(5) == 5
    assert "s0-headroom-replicas" in chat.metrics()
    assert chat.counts_over(5) == {5}


def test_two_namespaces_with_the_same_names_are_told_apart(keda: Keda, scaler: Scaler, namespace: str) -> None:
    other = f"{namespace}-b"
    keda.plane.kubectl("create", "namespace", other)
    first, second = Target(keda, scaler, namespace), Target(keda, scaler, other)
    first.make(1, 3)
    second.make(1, 9)
    assert first.comes_to(3) == 3
    assert second.comes_to(9) == 9
    keda.plane.kubectl("-n", other, "delete", "scaledobject", "--all", "--timeout=20s")


def test_over_tls_with_both_sides_certificates_from_a_secret(keda: Keda, namespace: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    server = authority.sign("headroom", "IP:127.0.0.1")
    caller = authority.sign("keda-operator", "DNS:keda-operator.keda")
    tls = Tls(server.cert, server.key, authority.cert, frozenset({"keda-operator.keda"}))
    files = {"ca.crt": authority.cert, "tls.crt": caller.cert, "tls.key": caller.key}
    keda.plane.apply({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "headroom-client", "namespace": namespace},
        "data": {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()},
    })  # fmt: skip
    keda.plane.apply({
        "apiVersion": "keda.sh/v1alpha1", "kind": "TriggerAuthentication",
        "metadata": {"name": "headroom", "namespace": namespace},
        "spec": {"secretTargetRef": [
            {"parameter": parameter, "name": "headroom-client", "key": key}
            for parameter, key in (("caCert", "ca.crt"), ("tlsClientCert", "tls.crt"), ("tlsClientKey", "tls.key"))
        ]},
    })  # fmt: skip
    with Scaler(tls=tls) as scaler:
        chat = Target(keda, scaler, namespace)
        chat.make(0, 4, push=True, authentication="headroom")
        assert chat.comes_to(4) == 4
        assert scaler.book.counts.calls["GetMetrics", "OK"] > 0
        unknown = Target(keda, scaler, namespace, "stranger")
        unknown.make(1, 4)
        assert unknown.counts_over(8) == {1}


@pytest.mark.parametrize("sample", sorted((ROOT / "config/samples").glob("keda-*.yaml")), ids=lambda path: path.stem)
def test_the_samples_are_taken_by_the_api_server(keda: Keda, sample: Path) -> None:
    taken = keda.plane.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", sample)
    assert "scaledobject.keda.sh/" in taken
