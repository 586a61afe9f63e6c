"""`headroom pause`: what it writes and where, and that a resume puts back exactly what was there."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autoscaler.api.annotations import read_annotations
from autoscaler.api.modes import Mode
from autoscaler.api.scaling_policy import read_scaling_policy
from autoscaler.cli.main import app
from autoscaler.cli.pausing import BEFORE
from tests.cli.plane import CHAT, CODE, FREEZE, OWN, POLICIES, Plane, named, plane, policy
from tests.web.test_live import Controller

run = CliRunner().invoke
POLICY = f"{POLICIES}/chat-policy"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path, Controller()) as made:
        yield made


def paused(cluster: Plane, *arguments: str) -> tuple[int, str, str]:
    result = run(app, ["pause", *arguments, *cluster.options()])
    return result.exit_code, result.stdout, result.stderr


def annotations(cluster: Plane, path: str = CHAT) -> dict[str, str]:
    return dict(cluster.objects[path]["metadata"]["annotations"])


def mode_now(cluster: Plane, path: str) -> Mode:
    """The mode that the controller reads from the object, in an installation that only watches by default."""
    found = cluster.objects[path]
    if path.startswith(POLICIES):
        spec = read_scaling_policy(json.dumps(found["spec"]).encode())
    else:
        given = read_annotations(annotations(cluster, path))
        assert given is not None
        spec = given
    return spec.mode_at(datetime.now(UTC).timestamp(), Mode.SHADOW)


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ([], Mode.PAUSED),
        (["--in"], Mode.PAUSED_SCALE_IN),
        (["--out"], Mode.PAUSED_SCALE_OUT),
        (["--in", "--out"], Mode.PAUSED),
    ],
    ids=lambda value: " ".join(value) or "plain" if isinstance(value, list) else value.value,
)
def test_an_annotated_workload_is_paused_by_annotations_the_controller_reads(
    cluster: Plane, flags: list[str], mode: Mode
) -> None:
    cluster.objects[CHAT] = named("chat", scale="true", mode="Active")
    code, out, err = paused(cluster, "prod/chat", *flags)
    assert (code, err) == (0, "")
    assert out == f"prod/chat: {mode.value} until `headroom pause prod/chat --resume`, by Deployment chat\n"
    assert mode_now(cluster, CHAT) is mode


@pytest.mark.parametrize("before", [None, "Active", "Shadow"])
def test_a_resume_puts_back_what_was_there_and_nothing_that_nobody_chose(cluster: Plane, before: str | None) -> None:
    given = {"scale": "true"} | ({} if before is None else {"mode": before})
    cluster.objects[CHAT] = named("chat", **given)
    untouched = annotations(cluster)
    paused(cluster, "prod/chat", "--in")
    paused(cluster, "prod/chat", "--for", "2h")
    assert mode_now(cluster, CHAT) is Mode.PAUSED
    code, out, _ = paused(cluster, "prod/chat", "--resume")
    assert (code, out) == (0, f"prod/chat: {before or 'the default mode'} again, by Deployment chat\n")
    assert annotations(cluster) == untouched


def test_a_policy_is_heard_before_an_annotation_and_gets_the_mode_in_its_spec(cluster: Plane) -> None:
    cluster.objects[CHAT] = named("chat", scale="true", mode="Active")
    cluster.objects[POLICY] = policy("chat-policy", "chat", mode="Active", maxReplicas=9)
    before = json.loads(json.dumps(cluster.objects[POLICY]["spec"]))
    assert paused(cluster, "prod/chat")[1].endswith("by ScalingPolicy chat-policy\n")
    assert mode_now(cluster, POLICY) is Mode.PAUSED
    assert mode_now(cluster, CHAT) is Mode.ACTIVE
    paused(cluster, "prod/chat", "--resume")
    assert cluster.objects[POLICY]["spec"] == before


def test_a_pause_that_ends_by_itself_ends_in_the_mode_before_it(cluster: Plane) -> None:
    cluster.objects[POLICY] = policy("chat-policy", "chat", mode="Active")
    began = datetime.now(UTC)
    told = json.loads(paused(cluster, "prod/chat", "--for", "1d12h30m5s", "--json")[1])
    ends = datetime.fromisoformat(told["until"])
    assert 131_404 <= (ends - began).total_seconds() <= 131_410
    spec = read_scaling_policy(json.dumps(cluster.objects[POLICY]["spec"]).encode())
    assert spec.mode_at(began.timestamp(), Mode.SHADOW) is Mode.PAUSED
    assert spec.mode_at(ends.timestamp(), Mode.SHADOW) is Mode.ACTIVE


def test_a_pause_in_an_installation_that_watches_by_default_does_not_end_in_action(cluster: Plane) -> None:
    cluster.objects[CHAT] = named("chat", scale="true")
    paused(cluster, "prod/chat", "--for", "1h")
    spec = read_annotations(annotations(cluster))
    assert spec is not None
    assert spec.mode_at(4e9, Mode.SHADOW) is Mode.SHADOW


def test_a_mode_with_an_end_of_its_own_comes_back_with_it_and_takes_no_second_end(cluster: Plane) -> None:
    planned = {"mode": "Active", "modeUntil": "2031-01-01T00:00:00Z", "modeAfter": "Shadow"}
    cluster.objects[POLICY] = policy("chat-policy", "chat", **planned)
    code, _, err = paused(cluster, "prod/chat", "--for", "2h")
    assert code == 2
    assert "its mode Active ends at 2031-01-01T00:00:00Z by itself" in err
    paused(cluster, "prod/chat")
    assert cluster.objects[POLICY]["spec"] == {"targetRef": {"name": "chat"}, "mode": "Paused"}
    paused(cluster, "prod/chat", "--resume")
    assert cluster.objects[POLICY]["spec"] == {"targetRef": {"name": "chat"}, **planned}


def test_a_pause_that_somebody_wrote_by_hand_is_resumed_into_the_default_mode(cluster: Plane) -> None:
    cluster.objects[CHAT] = named("chat", scale="true", mode="Paused")
    assert paused(cluster, "prod/chat", "--resume")[1] == "prod/chat: the default mode again, by Deployment chat\n"
    assert mode_now(cluster, CHAT) is Mode.SHADOW


@pytest.mark.parametrize("kept", ["", "no JSON", "[1]", '{"x": "y"}'])
def test_a_note_of_the_mode_before_that_cannot_be_read_gives_back_none(cluster: Plane, kept: str) -> None:
    cluster.objects[CHAT] = named("chat", scale="true", mode="Paused")
    cluster.objects[CHAT]["metadata"]["annotations"][BEFORE] = kept
    paused(cluster, "prod/chat", "--resume")
    assert annotations(cluster) == {"headroom.dev/scale": "true"}


def test_what_is_not_paused_is_left_as_it_is(cluster: Plane) -> None:
    cluster.objects[CHAT] = named("chat", scale="true", mode="Active")
    assert paused(cluster, "prod/chat", "--resume")[1] == "prod/chat is not paused: Active, by Deployment chat\n"
    assert cluster.written == []


def test_two_of_one_name_are_told_apart_by_their_kind(cluster: Plane) -> None:
    cluster.objects[CODE] = named("code", scale="true")
    cluster.objects[CODE.replace("statefulsets", "deployments")] = named("code", scale="true")
    code, _, err = paused(cluster, "prod/code")
    assert (code, err) == (2, "error: prod/code: several: Deployment code, StatefulSet code; give --kind\n")
    assert paused(cluster, "prod/code", "--kind", "StatefulSet")[0] == 0
    assert mode_now(cluster, CODE) is Mode.PAUSED


@pytest.mark.parametrize("there", [{}, {CHAT: named("chat")}, {POLICY: policy("chat-policy", "other")}])
def test_what_nobody_asked_to_be_scaled_cannot_be_paused(cluster: Plane, there: dict[str, Any]) -> None:
    cluster.objects.update(there)
    code, _, err = paused(cluster, "prod/chat")
    assert code == 2
    assert "no ScalingPolicy names it and no such target has headroom.dev/scale" in err
    assert cluster.written == []


def test_a_change_by_somebody_else_at_the_same_moment_is_not_overwritten(cluster: Plane) -> None:
    cluster.objects[CHAT] = named("chat", scale="true")
    handle = cluster._write

    def late(path: str, method: str, content: dict[str, Any]) -> Any:
        cluster.objects[CHAT]["metadata"]["resourceVersion"] = "8"
        return handle(path, method, content)

    cluster._write = late  # type: ignore[method-assign]  # somebody writes between the look and the patch
    code, _, err = paused(cluster, "prod/chat")
    assert (code, err) == (1, "error: Deployment chat: somebody changed it at the same moment; try again\n")


def test_rights_that_are_missing_are_named(cluster: Plane) -> None:
    cluster.objects[CHAT] = named("chat", scale="true")
    cluster.forbidden.add(f"PATCH {CHAT}")
    code, _, err = paused(cluster, "prod/chat")
    assert code == 1
    assert re.search(rf"error: PATCH {CHAT}: 403 Forbidden: .* is forbidden\n", err)


def test_everything_is_frozen_and_resumed_by_one_key_that_says_why(cluster: Plane) -> None:
    assert paused(cluster, "--cluster", "--resume")[0] == 0
    assert FREEZE not in cluster.objects
    code, out, _ = paused(cluster, "--cluster", "--reason", "incident 7")
    assert code == 0
    assert out.startswith("everything is frozen until `headroom pause --cluster --resume`")
    assert cluster.objects[FREEZE]["data"] == {"freeze": "incident 7"}
    cluster.objects[FREEZE]["data"]["other"] = "kept"
    paused(cluster, "--cluster")
    assert cluster.objects[FREEZE]["data"]["freeze"] == "by headroom pause --cluster"
    paused(cluster, "--cluster", "--resume")
    assert cluster.objects[FREEZE]["data"] == {"other": "kept"}


def test_headroom_may_live_elsewhere(cluster: Plane) -> None:
    paused(cluster, "--cluster", "--namespace", "ops")
    assert FREEZE.replace(OWN, "ops") in cluster.objects


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either a workload, as NAMESPACE/NAME, or --cluster"),
        (["prod/chat", "--cluster"], "give either a workload"),
        (["prod/chat", "--resume", "--in"], "--resume ends any pause"),
        (["prod/chat", "--resume", "--for", "2h"], "--resume ends any pause"),
        (["--cluster", "--for", "2h"], "--cluster freezes all until"),
        (["prod/chat", "--for", "2"], "--for '2': give a time such as 90m, 2h or 1d12h"),
        (["prod/chat", "--for", "h2"], "--for 'h2': give a time"),
        (["prod/chat", "--for", "2h30"], "--for '2h30': give a time"),
        (["prod/chat", "--for", "0s"], "--for '0s': give a time"),
        (["prod/chat", "--for", "999999999d"], "of at most a year"),
        (["chat"], "'chat': give the workload as NAMESPACE/NAME"),
        (["prod/chat/x"], "'prod/chat/x': give the workload as NAMESPACE/NAME"),
        (["../chat"], "not the path of an object"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_understood_is_refused_with_a_remedy(cluster: Plane, arguments: list[str], words: str) -> None:
    code, out, err = paused(cluster, *arguments)
    assert (code in {1, 2}, out) == (True, "")
    assert words in err
    assert cluster.written == []
