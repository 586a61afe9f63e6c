"""`status` and `explain NS/NAME`: asked at a URL or through the cluster, and what is said when nobody answers."""

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app
from autoscaler.record.status import About, Condition, Rejected
from tests.cli.plane import LEASE, OWN, POD, Plane, lease, plane
from tests.record.pool_statuses import short_pool, young_pool
from tests.record.test_board import AIM, act, step
from tests.web.test_live import CHAT, FOLLOWING, LEADING, Controller

run = CliRunner().invoke


@pytest.fixture
def controller() -> Controller:
    made = Controller()
    made.board.stepped(step(95.0, 2, 4), AIM, 95.2)
    made.board.acted(act(95.4))
    made.board.stepped(step(100.0), AIM, 100.2)
    return made


@pytest.fixture
def cluster(tmp_path: Path, controller: Controller) -> Iterator[Plane]:
    with plane(tmp_path, controller) as made:
        made.objects[LEASE] = lease()
        yield made


def asked(*arguments: str) -> tuple[int, str, str]:
    result = run(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_the_status_is_a_table_of_need_have_and_getting(cluster: Plane) -> None:
    code, out, err = asked("status", "--server", cluster.url)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "headroom-0_1 leads (version 0.1.0), 2 workloads"
    (chat,) = (line for line in lines if line.startswith("prod/chat"))
    assert re.split(r"\s{2,}", chat.strip())[:9] == [
        "prod/chat", "Active", "12", "4", "4", "0", "0.188 s", "2 s", "fits",
    ]  # fmt: skip
    assert "stays at 4: 4 is right" in chat
    (code_row,) = (line for line in lines if line.startswith("prod/code  "))
    assert re.split(r"\s{2,}", code_row.strip()) == ["prod/code", "Shadow", *"??????", "not decided yet"]
    assert "prod/code: metrics timeout: no answer within 2 s" in lines


def test_a_mode_that_is_not_believed_now_stands_beside_the_one_that_was_chosen(cluster: Plane) -> None:
    """After the API server fell silent nobody paused anything."""
    cluster.controller.workloads = {"prod/chat": replace(CHAT, mode="Paused", chosen_mode="Active")}
    lines = asked("status", "--server", cluster.url)[1].splitlines()
    assert lines[0] == "headroom-0_1 leads (version 0.1.0), 1 workload"
    (chat,) = (line for line in lines if line.startswith("prod/chat"))
    assert re.split(r"\s{2,}", chat)[1] == "Active (now Paused)"
    said = asked("explain", "prod/chat", "--server", cluster.url)[1].splitlines()
    assert "  mode: Active (now Paused) (Deployment, by ScalingPolicy chat)" in said


@pytest.mark.parametrize(("address", "scheme"), [("[fd00::7]:8080", ""), ("https://[fd00::7]:8080", "https:")])
def test_a_leader_with_an_address_of_ipv6_is_asked_on_its_port_by_its_name(
    cluster: Plane, address: str, scheme: str
) -> None:
    cluster.objects[LEASE]["metadata"]["annotations"]["headroom.dev/address"] = address
    asked("status", *cluster.options())
    assert set(cluster.proxied) == {f"/api/v1/namespaces/{OWN}/pods/{scheme}{POD}:8080/proxy/api/status"}


def test_the_status_is_json_when_that_is_asked_for(cluster: Plane) -> None:
    told = json.loads(asked("status", "--server", cluster.url, "--json")[1])
    assert [row["workload"] for row in told["workloads"]] == ["prod/chat", "prod/code"]


def test_a_status_in_many_parts_is_one_table(cluster: Plane) -> None:
    names = {f"team-{number % 3}/chat-{number:04d}": CHAT for number in range(2100)}
    cluster.controller.workloads = names
    told = json.loads(asked("status", "--server", cluster.url, "--json")[1])
    assert [row["workload"] for row in told["workloads"]] == sorted(names)
    told = json.loads(asked("status", "team-1/", "--server", cluster.url, "--json")[1])
    assert {row["workload"].split("/")[0] for row in told["workloads"]} == {"team-1"}
    assert len(told["workloads"]) == 700


def test_one_workload_alone_or_a_word_that_it_is_not_scaled(cluster: Plane) -> None:
    told = json.loads(asked("status", "prod/code", "--server", cluster.url, "--json")[1])
    assert [row["workload"] for row in told["workloads"]] == ["prod/code"]
    assert asked("status", "prod/none", "--server", cluster.url) == (
        1,
        "",
        "error: prod/none is not scaled by Headroom; `headroom status` (/api/status) lists what is\n",
    )


VAIN = (
    Rejected("prod", "Deployment", "none", "Invalid", "headroom.dev/max-replicas: 'x' is out of range"),
    Rejected("prod", "ScalingPolicy", "other", "TargetNotFound", "there is no Deployment nonne in namespace prod"),
    Rejected("test", "Deployment", "none", "KindNotAllowed", "not here"),
)


def test_who_asks_for_a_workload_that_is_not_served_is_told_why(cluster: Plane) -> None:
    cluster.controller.rejected = VAIN
    said = f"error: prod/none is not scaled by Headroom: Deployment none: Invalid: {VAIN[0].message}\n"
    for command in ("explain", "status"):
        assert asked(command, "prod/none", "--server", cluster.url) == (1, "", said)
    _, _, near = asked("explain", "prod/nonne", "--server", cluster.url)
    assert "; in namespace prod ask in vain: Deployment none: Invalid" in near
    assert "ScalingPolicy other: TargetNotFound: there is no Deployment nonne" in near
    assert "not here" not in near


def test_a_pause_is_told_with_its_object_and_its_end_and_a_freeze_with_its_reason(cluster: Plane) -> None:
    paused = (Condition("Paused", "True", "Paused", "the replicas are left alone"),)
    doubted = (Condition("Paused", "True", "NotHeard", "its mode may be another by now"),)
    cluster.controller.workloads = {
        "prod/chat": replace(CHAT, mode="Paused", mode_until_s=3600.0, conditions=paused),
        "prod/code": replace(CHAT, mode="Paused", conditions=doubted),
    }
    cluster.controller.process = replace(LEADING, frozen=True, frozen_why="incident 7")
    lines = asked("status", "--server", cluster.url)[1].splitlines()
    assert "FROZEN (incident 7): everything is decided and recorded, nothing is acted upon" in lines
    assert "prod/chat: Paused until 01:00:00, by ScalingPolicy chat" in lines
    assert not [line for line in lines if line.startswith("prod/code: Paused")], "nobody paused it"


def test_a_freeze_and_a_follower_are_said_before_anything_else(cluster: Plane) -> None:
    cluster.controller.process = replace(FOLLOWING, frozen=True)
    cluster.controller.not_ready = ("pods was not heard for 130 s",)
    lines = asked("status", "--server", cluster.url)[1].splitlines()
    assert lines[:3] == [
        "headroom-1_2 does not lead, headroom-0_1 does: there are no figures here",
        "FROZEN: everything is decided and recorded, nothing is acted upon",
        "not ready: pods was not heard for 130 s",
    ]


def test_who_asks_in_vain_is_named_below_the_table(cluster: Plane) -> None:
    one = Rejected("prod", "ScalingPolicy", "new", "Invalid", "spec.maxReplicas: 0 is out of range")
    cluster.controller.rejected = (one,) * 101
    lines = asked("status", "--server", cluster.url)[1].splitlines()
    assert "not scaled: ScalingPolicy prod/new: Invalid: spec.maxReplicas: 0 is out of range" in lines
    assert lines[-1] == "not scaled: 1 more"


def test_what_is_wrong_with_many_in_the_same_words_is_one_line_of_them_all(cluster: Plane) -> None:
    """Of a right that is missing a thousand workloads told one by one, and hid what is wrong with one of them."""
    lacking = replace(CHAT, remarks=("done without: GET /api/v1/nodes: 403 Forbidden",))
    cluster.controller.workloads = {f"prod/m{number}": lacking for number in range(9)}
    cluster.controller.workloads |= {"prod/m8": replace(lacking, obstacle="HPA m8 scales it too")}
    lines = asked("status", "--server", cluster.url)[1].splitlines()
    told = [line for line in lines if "403" in line or "HPA" in line]
    assert told == [
        "prod/m0, prod/m1, prod/m2 and 6 more: done without: GET /api/v1/nodes: 403 Forbidden",
        "prod/m8: HPA m8 scales it too",
    ]


STATES = {
    "blocked": About(kind="Deployment", way="annotation", obstacle="HPA chat scales it too"),
    "fits": CHAT,
}


@pytest.mark.parametrize(("said", "about"), STATES.items(), ids=STATES)
def test_the_state_is_the_worst_of_what_is_true(cluster: Plane, said: str, about: About) -> None:
    cluster.controller.workloads = {"prod/chat": about}
    told = asked("status", "--server", cluster.url)[1]
    assert f"  {said} " in told


def test_explain_of_a_workload_is_the_controllers_own_text(cluster: Plane) -> None:
    code, out, _ = asked("explain", "prod/chat", "--server", cluster.url)
    assert code == 0
    assert out.splitlines()[0] == "00:01:40  prod/chat  4 → 4  HOLD  STEADY"
    assert "  last act: 00:01:35 4→9: applied" in out.splitlines()
    told = json.loads(asked("explain", "prod/chat", "--server", cluster.url, "--json")[1])
    assert told["decision"]["reason"] == "STEADY"


def test_without_a_url_the_pod_that_holds_the_lease_is_asked_through_the_cluster(cluster: Plane) -> None:
    code, out, err = asked("explain", "prod/chat", *cluster.options())
    assert (code, err) == (0, "")
    assert out.startswith("00:01:40  prod/chat")
    assert asked("status", *cluster.options())[1].startswith("headroom-0_1 leads")
    assert cluster.proxied[0] == f"/api/v1/namespaces/{OWN}/pods/{POD}:8080/proxy/api/explain/prod/chat"


def test_what_the_controller_refuses_is_said_in_its_words_either_way(cluster: Plane) -> None:
    words = "error: prod/none is not scaled by Headroom; `headroom status` (/api/status) lists what is\n"
    assert asked("explain", "prod/none", "--server", cluster.url) == (1, "", words)
    assert asked("explain", "prod/none", *cluster.options()) == (1, "", words)
    cluster.controller.process = FOLLOWING
    words = "error: this replica does not lead, headroom-0_1 does; ask there\n"
    assert asked("explain", "prod/chat", "--server", cluster.url) == (1, "", words)


def test_the_variable_names_the_server_too(cluster: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_SERVER", cluster.url)
    assert asked("status")[1].startswith("headroom-0_1 leads")
    assert cluster.proxied == []


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda c: c.objects.pop(LEASE), "lease headroom-system/headroom does not exist: is Headroom installed there?"),
        (lambda c: c.objects.update({LEASE: lease(None)}), "is held by nobody: no replica leads now"),
        (
            lambda c: c.forbidden.add(f"GET {LEASE}"),
            "lease headroom-system/headroom could not be read: GET /apis/coord",
        ),
        (lambda c: c.forbidden.add("GET /api/v1/namespaces"), "Asking needs the right to get pods/proxy there."),
    ],
    ids=["no lease", "no holder", "lease forbidden", "proxy forbidden"],
)
def test_when_the_leader_cannot_be_asked_it_says_where_and_what_to_do(cluster: Plane, spoil, words: str) -> None:
    spoil(cluster)
    code, out, err = asked("status", *cluster.options())
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1


def test_a_cluster_that_is_not_reached_is_told_in_the_systems_words_and_asked_about(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c, "
        "user: u}}], users: [{name: u, user: {token: t}}], current-context: c}"
    )
    code, _, err = asked("status", "--kubeconfig", str(config))
    assert code == 1
    assert err.endswith(
        ": no connection to 127.0.0.1:1 (Connection refused); is it the right cluster (--kubeconfig, --context), and "
        "can this machine reach it?\n"
    )


class Strange(BaseHTTPRequestHandler):
    """Something else that listens on the port."""

    def do_GET(self) -> None:
        answers = {
            "html": (200, b"<html>hello</html>"),
            "moved": (302, b""),
            "broken": (500, b"<html>Internal Server Error</html>"),
        }
        code, body = answers[self.path.split("/")[1]]
        self.send_response(code)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def strange() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Strange) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("html", "not an answer that this version understands"),
        ("moved", "/moved/api/status?after=: 302 Found ''; is it the controller that answers there?"),
        ("broken", "500 Internal Server Error and a page of HTML; is it the controller that answers there?"),
    ],
)
def test_what_is_no_controller_is_named(strange: str, path: str, words: str) -> None:
    code, out, err = asked("status", "--server", f"{strange}/{path}")
    assert (code, out) == (1, "")
    assert words in err


@pytest.mark.parametrize(
    ("server", "code", "words"),
    [
        ("localhost:8080", 2, "--server 'localhost:8080': no URL; give one such as http://localhost:8080"),
        ("ftp://host", 2, "no URL"),
        ("http://127.0.0.1:{closed}", 1, "Connection refused; is the controller there, and the port forwarded?"),
        ("http://127.0.0.1:{closed}/a b", 1, "is the controller there"),
    ],
)
def test_a_server_that_is_none_is_a_clear_error(server: str, code: int, words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    result = asked("status", "--server", server.format(closed=closed))
    assert result[:2] == (code, "")
    assert words in result[2]


def test_a_kubeconfig_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    code, _, err = asked("status", "--kubeconfig", str(tmp_path / "none"))
    assert code == 2
    assert "give a usable kubeconfig" in err


def test_words_that_choose_from_a_file_are_refused_for_a_workload() -> None:
    code, _, err = asked("explain", "prod/chat", "--last", "3")
    assert (code, err) == (
        2,
        "error: prod/chat: --at, --last and a second name choose from a file; leave them out, or give one\n",
    )


def test_a_file_that_is_there_is_a_file_whatever_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prod").mkdir()
    (tmp_path / "prod" / "chat").write_bytes(b"no audit\n")
    assert asked("explain", "prod/chat")[2].startswith("error: prod/chat: line 1: not JSON")
    assert asked("explain", "prod/none.jsonl")[2].startswith("error: prod/none.jsonl: No such file")


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["chat"], "prod/chat"), (["warmpool", "chat"], "warmpool/chat"), (["prod", "chat"], "prod/chat")],
)
def test_a_bare_name_that_is_no_file_is_told_how_a_workload_is_named(words: list[str], meant: str) -> None:
    code, _, err = asked("explain", *words)
    assert (code, err) == (
        2,
        f"error: {words[0]}: no such file; what runs is named NAMESPACE/NAME or KIND/NAME, such as {meant}\n",
    )


def test_asking_a_url_imports_nothing_of_kubernetes(cluster: Plane) -> None:
    script = (
        f"import sys; from autoscaler.cli.main import app; app(['status', '--server', {cluster.url!r}], "
        "standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(done.stdout.splitlines()[-1].split())
    assert "autoscaler.cli.status" in modules
    assert not {"kubernetes_asyncio", "aiohttp", "pydantic_settings", "sklearn", "scipy"} & modules


def test_help_is_quick_because_it_imports_little() -> None:
    script = (
        "import sys; from autoscaler.cli.main import app\n"
        "for name in ('run', 'status', 'explain', 'pause', 'doctor'): app([name, '--help'], standalone_mode=False)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(done.stdout.splitlines()[-1].split())
    assert {"autoscaler.cli.run", "autoscaler.cli.doctor"} <= modules
    assert not {"kubernetes_asyncio", "aiohttp", "pydantic_settings", "numpy"} & modules


def test_warm_pools_are_a_table_of_their_own_and_explained_by_name(cluster: Plane) -> None:
    cluster.controller.pools = (short_pool(), young_pool())
    lines = asked("status", "--server", cluster.url)[1].splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("WARMPOOL"))
    assert lines[at].split()[:7] == ["WARMPOOL", "BACKEND", "WARM", "WANTED", "STARTING", "FOUND", "WARM"]
    assert lines[at + 1].startswith(
        "chat       slots     2      4        1          99.0%        10.7 min   no capacity"
    )
    assert "    ?    " in lines[at + 2], "no growth was seen yet"
    assert "found warm: 99 of 100" in asked("explain", "warmpool/chat", "--server", cluster.url)[1]
    assert asked("explain", "warmpool/none", "--server", cluster.url)[2] == (
        "error: none is no WarmPool that is kept; `headroom status` (/api/pools) lists those that are; if a workload "
        "in namespace warmpool is meant, add --kind workload\n"
    )
