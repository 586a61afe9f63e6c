"""Each alert fires for its trouble, alone, and not before its time, in Prometheus' own rule tests."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.chart.generate import CHART

pytestmark = [pytest.mark.real, pytest.mark.needs("prometheus")]

POD: Final = 'job="headroom",instance="a"'
OTHER: Final = 'job="headroom",instance="b"'
CHAT: Final = f'{POD},namespace="prod",workload="chat"'
LEADS: Final = {f"headroom_leader{{{POD}}}": "1x400", f"headroom_batch_acting{{{POD}}}": "1x400"}
"""A replica leads and tells of batch work: without it another alert is right as well."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Series a minute apart, when the alert is silent still, and when it fires."""

    series: dict[str, str]
    silent_m: int
    fires_m: int


TROUBLES: Final = {
    "HeadroomNoLeader": Trouble({f"headroom_leader{{{POD}}}": "1 1 1 0x20"}, 4, 6),
    "HeadroomTwoLeaders": Trouble({**LEADS, f"headroom_leader{{{OTHER}}}": "0 0 0 1x20"}, 3, 5),
    "HeadroomLeaderChangesOften": Trouble(
        {
            **LEADS,
            f"headroom_lease_transitions_total{{{POD}}}": "3x20",
            f"headroom_lease_transitions_total{{{OTHER}}}": "_x10 5 5 5 8x20",
        },
        12,
        14,
    ),
    "HeadroomNothingDecided": Trouble({**LEADS, f"headroom_step_age_seconds{{{POD}}}": "0+60x40"}, 15, 18),
    "HeadroomLoopSlow": Trouble({**LEADS, f"headroom_loop_lag_seconds{{{POD}}}": "0 2x20"}, 10, 12),
    "HeadroomApiServerUnheard": Trouble(
        {**LEADS, f'headroom_watch_staleness_seconds{{{POD},resource="/api/v1/pods"}}': "60+60x20"}, 3, 5
    ),
    "HeadroomApiServerRefuses": Trouble(
        {**LEADS, f'headroom_api_requests_total{{{POD},method="PATCH",answer="4xx"}}': "0+60x40"}, 10, 12
    ),
    "HeadroomRecordLost": Trouble({**LEADS, f'headroom_record_lost_total{{{POD},stream="audit"}}': "0 0 0 5x20"}, 2, 4),
    "HeadroomFrozen": Trouble({**LEADS, f"headroom_frozen{{{POD}}}": "1x400"}, 239, 241),
    "HeadroomSettingsDiffer": Trouble(
        {
            **LEADS,
            f'headroom_config_info{{{POD},hash="one"}}': "1x60",
            f'headroom_config_info{{{OTHER},hash="two"}}': "1x60",
        },
        29,
        31,
    ),
    "HeadroomWorkloadsTurnedAway": Trouble(
        {**LEADS, f'headroom_workload_claims{{{POD},place="waiting"}}': "0 7x30"}, 10, 12
    ),
    "HeadroomSignalUnknown": Trouble({**LEADS, f'headroom_signal_state{{{CHAT},signal="queue"}}': "1 2 3x30"}, 11, 13),
    "HeadroomPagesSilent": Trouble(
        {
            **LEADS,
            f'headroom_scrape_targets{{{POD},state="silent"}}': "1 3x30",
            f'headroom_scrape_targets{{{POD},state="answering"}}': "9 7x30",
        },
        10,
        12,
    ),
    "HeadroomWorkloadNotDecided": Trouble(
        {**LEADS, f"headroom_decision_age_seconds{{{CHAT}}}": "0+60x40", f"headroom_step_age_seconds{{{POD}}}": "1x40"},
        19,
        22,
    ),
    "HeadroomChangesRefused": Trouble({**LEADS, f'headroom_acts_total{{{CHAT},outcome="REFUSED"}}': "0+1x30"}, 6, 8),
    "HeadroomSetByOthers": Trouble(
        {**LEADS, f'headroom_acts_total{{{CHAT},outcome="EDITED"}}': "0 0+0x10 24+0x29 48+0x29 72+0x29 96x60"}, 71, 73
    ),
    "HeadroomShortOfReplicas": Trouble({**LEADS, f"headroom_overload_deficit_replicas{{{CHAT}}}": "0 3x30"}, 15, 17),
    "HeadroomObjectiveMissed": Trouble(
        {
            **LEADS,
            f"headroom_budget_burn_ratio{{{CHAT}}}": "1.9 4x30",
            f"headroom_late_ratio{{{CHAT}}}": "0 0.3 0 0 0 0.1x30",
        },
        15,
        17,
    ),
    "HeadroomForecastDrifts": Trouble({**LEADS, f'headroom_forecast_drift{{{CHAT},reason="MISSES"}}': "1x60"}, 29, 31),
    "HeadroomHttpCertificatesRefused": Trouble(
        {**LEADS, f"headroom_http_certificates_refused{{{POD}}}": "0 1x30"}, 10, 12
    ),
    "HeadroomHttpCertificateEnds": Trouble(
        {**LEADS, f"headroom_http_certificate_not_after_timestamp_seconds{{{POD}}}": f"{2 * 86_400 + 1200}x60"}, 30, 32
    ),
    "HeadroomKedaCallsFail": Trouble(
        {
            **LEADS,
            f'headroom_keda_calls_total{{{POD},method="GetMetrics",code="OK"}}': "0+60x40",
            f'headroom_keda_calls_total{{{POD},method="GetMetrics",code="UNAVAILABLE"}}': "0+12x40",
        },
        10,
        13,
    ),
    "HeadroomKedaCertificatesRefused": Trouble(
        {**LEADS, f"headroom_keda_certificates_refused{{{POD}}}": "0 1x30"}, 10, 12
    ),
    "HeadroomKedaCertificateEnds": Trouble(
        {**LEADS, f"headroom_keda_certificate_not_after_timestamp_seconds{{{POD}}}": f"{2 * 86_400 + 1200}x60"}, 30, 32
    ),
    "HeadroomPoolShort": Trouble(
        {
            **LEADS,
            f'headroom_pool_target_slots{{{POD},pool="chat"}}': "4x90",
            f'headroom_pool_warm_slots{{{POD},pool="chat"}}': "4 3x90",
            f'headroom_pool_target_slots{{{POD},pool="lends"}}': "4x90",
            f'headroom_pool_warm_slots{{{POD},pool="lends"}}': "4 3x90",
            f'headroom_pool_lent_slots{{{POD},pool="lends"}}': "0 1x90",
        },
        60,
        62,
    ),
    "HeadroomLoanOverdue": Trouble({**LEADS, f'headroom_pool_overdue_slots{{{POD},pool="chat"}}': "0 1x30"}, 5, 7),
    "HeadroomPoolWritesRefused": Trouble(
        {**LEADS, f'headroom_pool_refusals_total{{{POD},pool="chat"}}': "0+1x30"}, 5, 7
    ),
    "HeadroomBatchSilent": Trouble({f"headroom_leader{{{POD}}}": "1x30"}, 9, 11),
    "HeadroomBatchBlind": Trouble({**LEADS, f"headroom_batch_unread{{{POD}}}": "0 0 1x30"}, 6, 8),
    "HeadroomBatchHeadLate": Trouble(
        {**LEADS, f'headroom_batch_queue_head_late_seconds{{{POD},queue="vision"}}': "0x4 0+60x60"}, 44, 47
    ),
    "HeadroomBatchUntaken": Trouble({**LEADS, f"headroom_batch_untaken_gangs{{{POD}}}": "0 0 3x60"}, 31, 33),
    "HeadroomBatchStopsAgainAndAgain": Trouble(
        {
            **LEADS,
            f'headroom_batch_admitted_gangs_total{{{POD},reason="FITS"}}': "0+1x90",
            f'headroom_batch_evicted_gangs_total{{{POD},reason="LOST"}}': "0x10 0+1x80",
        },
        19,
        35,
    ),
    "HeadroomBatchQueueLeftOut": Trouble(
        {
            **LEADS,
            f'headroom_batch_queue_served{{{POD},queue="vision"}}': "1 0x30",
            f'headroom_batch_queue_served{{{POD},queue="speech"}}': "1x31",
        },
        15,
        17,
    ),
    "HeadroomBatchWritesRefused": Trouble({**LEADS, f"headroom_batch_write_failures_total{{{POD}}}": "0+1x30"}, 5, 7),
    "HeadroomHpaHolds": Trouble({**LEADS, f'headroom_hpa_limit{{{CHAT},limit="tolerance"}}': "1x60"}, 29, 31),
}

IN_A: Final = 'job="headroom",namespace="a",instance="a"'
IN_B: Final = 'job="headroom",namespace="b",instance="b"'
FURTHER: Final = {
    "an installation without a leader beside one that has one": (
        "HeadroomNoLeader",
        Trouble(
            {
                f"headroom_leader{{{IN_A}}}": "1x20",
                f"headroom_leader{{{IN_B}}}": "1 1 1 0x20",
                f"headroom_batch_acting{{{IN_A}}}": "1x20",
            },
            4,
            6,
        ),
    ),
    "an installation whose pods are gone beside one that leads": (
        "HeadroomNoLeader",
        Trouble(
            {
                f"headroom_leader{{{IN_A}}}": "1x70",
                f"headroom_leader{{{IN_B}}}": "1 1 1 stale",
                f"headroom_batch_acting{{{IN_A}}}": "1x70",
            },
            4,
            6,
        ),
    ),
    "an installation that says nothing of batch work beside one that does": (
        "HeadroomBatchSilent",
        Trouble(
            {
                f"headroom_leader{{{IN_A}}}": "1x30",
                f"headroom_leader{{{IN_B}}}": "1x30",
                f"headroom_batch_acting{{{IN_A}}}": "1x30",
            },
            9,
            11,
        ),
    ),
    "a pool that is short in an installation beside one that has its slots": (
        "HeadroomPoolShort",
        Trouble(
            {
                f"headroom_leader{{{IN_A}}}": "1x70",
                f"headroom_leader{{{IN_B}}}": "1x70",
                f"headroom_batch_acting{{{IN_A}}}": "1x70",
                f"headroom_batch_acting{{{IN_B}}}": "1x70",
                f'headroom_pool_target_slots{{{IN_A},pool="chat"}}': "4x70",
                f'headroom_pool_warm_slots{{{IN_A},pool="chat"}}': "1x70",
                f'headroom_pool_target_slots{{{IN_B},pool="chat"}}': "4x70",
                f'headroom_pool_warm_slots{{{IN_B},pool="chat"}}': "4x70",
            },
            59,
            61,
        ),
    ),
    "the only installation's pods are gone": (
        "HeadroomNoLeader",
        Trouble({f"headroom_leader{{{POD}}}": "1 1 1 stale", f"headroom_batch_acting{{{POD}}}": "1 1 1 stale"}, 4, 6),
    ),
    "the only installation's pods are gone for hours": (
        "HeadroomNoLeader",
        Trouble({f"headroom_leader{{{POD}}}": "1 1 1 stale", f"headroom_batch_acting{{{POD}}}": "1 1 1 stale"}, 1, 180),
    ),
    "nobody was ever read": (
        "HeadroomNoLeader",
        Trouble({"up": "1x10"}, 1, 3),
    ),
    "a webhook that does not answer, which leaves every outcome unknown": (
        "HeadroomChangesRefused",
        Trouble({**LEADS, f'headroom_acts_total{{{CHAT},outcome="UNKNOWN"}}': "0+12x30"}, 6, 8),
    ),
    "a workload that is short where another installation looks at it in Shadow": (
        "HeadroomShortOfReplicas",
        Trouble(
            {
                **LEADS,
                f"headroom_overload_deficit_replicas{{{CHAT}}}": "0 3x30",
                'headroom_mode{job="trial",instance="c",namespace="prod",workload="chat",mode="Shadow"}': "1x31",
            },
            15,
            17,
        ),
    ),
    "policies that are not read": (
        "HeadroomApiServerUnheard",
        Trouble({**LEADS, f'headroom_watch_staleness_seconds{{{POD},resource="scalingpolicies"}}': "+Inf+0x20"}, 1, 3),
    ),
    "a server that is away, of which eleven resources are one alert": (
        "HeadroomApiServerUnheard",
        Trouble(
            LEADS | {f'headroom_watch_staleness_seconds{{{POD},resource="r{n}"}}': "60+60x20" for n in range(11)}, 3, 5
        ),
    ),
}
"""Other ways in which an alert fires."""

HOUR_M: Final = 60
WELL: Final = {
    "two installations of one name in two namespaces, of different settings": {
        f"headroom_leader{{{IN_A}}}": "1x60",
        f"headroom_leader{{{IN_B}}}": "1x60",
        f"headroom_batch_acting{{{IN_A}}}": "1x60",
        f"headroom_batch_acting{{{IN_B}}}": "1x60",
        f'headroom_config_info{{{IN_A},hash="one"}}': "1x60",
        f'headroom_config_info{{{IN_B},hash="two"}}': "1x60",
        f"headroom_lease_transitions_total{{{IN_A}}}": "1x60",
        f"headroom_lease_transitions_total{{{IN_B}}}": "40x60",
    },
    "resources that the cluster does not have, and objects that somebody else wrote first": {
        **LEADS,
        f'headroom_api_requests_total{{{POD},method="GET",answer="404"}}': "0+60x60",
        f'headroom_api_requests_total{{{POD},method="PATCH",answer="409"}}': "0+60x60",
    },
    "a night without requests, of which no latency is told": {
        **LEADS,
        f'headroom_signal_state{{{CHAT},signal="latency"}}': "1x5 3x60",
        f'headroom_signal_state{{{CHAT},signal="queue"}}': "1x65",
    },
    "one change that was refused, and one that nobody answered": {
        **LEADS,
        f'headroom_acts_total{{{CHAT},outcome="REFUSED"}}': "0x5 1x60",
        f'headroom_acts_total{{{CHAT},outcome="UNKNOWN"}}': "0x30 1x35",
    },
    "a count that was set by hand, and was left alone for two minutes": {
        **LEADS,
        f'headroom_acts_total{{{CHAT},outcome="EDITED"}}': "0x5 12 24x60",
    },
    "changes that are applied between those that come too late": {
        **LEADS,
        f'headroom_acts_total{{{CHAT},outcome="UNREADABLE"}}': "0+1x60",
        f'headroom_acts_total{{{CHAT},outcome="APPLIED"}}': "0+1x60",
    },
    "an incident that is over and has spent the day's budget": {
        **LEADS,
        f"headroom_budget_burn_ratio{{{CHAT}}}": "0 90x60",
        f"headroom_late_ratio{{{CHAT}}}": "0 1 1 0x60",
    },
    "a load so flat that no model beats the last value": {
        **LEADS,
        f'headroom_forecast_drift{{{CHAT},reason="LOSING"}}': "1x60",
    },
    "a workload in Shadow that another one scales": {
        **LEADS,
        f"headroom_overload_deficit_replicas{{{CHAT}}}": "3x60",
        f'headroom_mode{{{CHAT},mode="Shadow"}}': "1x60",
    },
}
"""Series a minute apart, for an hour in which nothing is wrong."""


@pytest.fixture(scope="module")
def rules() -> dict[str, dict[str, Any]]:
    """Every alert by name."""
    groups = msgspec.yaml.decode((CHART / "files/alerts.yaml").read_text())["groups"]
    return {alert["alert"]: alert for group in groups for alert in group["rules"]}


def test_every_alert_has_its_trouble(rules: dict[str, dict[str, Any]]) -> None:
    assert sorted(TROUBLES) == sorted(rules)


@pytest.mark.parametrize("name", TROUBLES)
def test_an_alert_fires_once_for_its_trouble_and_no_other_does(tmp_path: Path, name: str) -> None:
    fires_alone(tmp_path, name, TROUBLES[name])


@pytest.mark.parametrize("way", FURTHER)
def test_an_alert_fires_for_the_same_trouble_in_another_way(tmp_path: Path, way: str) -> None:
    fires_alone(tmp_path, *FURTHER[way])


@pytest.mark.parametrize("state", WELL)
def test_no_alert_fires_while_nothing_is_wrong(tmp_path: Path, state: str) -> None:
    asked(tmp_path, WELL[state], dict.fromkeys(range(HOUR_M + 1)))


def test_an_installation_that_is_taken_out_beside_another_is_missed_for_an_hour(tmp_path: Path) -> None:
    series = FURTHER["an installation whose pods are gone beside one that leads"][1].series
    asked(tmp_path, series, {6: "HeadroomNoLeader", 60: "HeadroomNoLeader", 64: None})


def fires_alone(tmp_path: Path, name: str, trouble: Trouble) -> None:
    """None fires up to a minute, and this one alone at a later one."""
    asked(tmp_path, trouble.series, {trouble.silent_m: None, trouble.fires_m: name})


def asked(tmp_path: Path, series: dict[str, str], firing: dict[int, str | None]) -> None:
    """Which alert fires at which minute, and no other."""
    test = {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name else [],
            }
            for minute, name in firing.items()
        ],
    }
    file = tmp_path / "test.json"
    rules = str(CHART / "files/alerts.yaml")
    file.write_text(json.dumps({"rule_files": [rules], "evaluation_interval": "1m", "tests": [test]}))
    promtool = shutil.which("promtool")
    assert promtool is not None
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
