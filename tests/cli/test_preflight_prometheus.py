"""The options of `headroom preflight` that say where, when and what to read."""

import asyncio
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.jobs import OF_PODS, OWNERS
from autoscaler.adapters.prometheus.patience import Patience, Persistence
from autoscaler.adapters.prometheus.questions import Window, settle_s
from autoscaler.adapters.prometheus.search import OWNER_LABELS, Wanted
from autoscaler.cli import main, preflight_prometheus
from autoscaler.cli.preflight_prometheus import _pinned
from autoscaler.cli.prometheus_flags import PrometheusOptions
from autoscaler.cli.prometheus_options import endpoint_of, search_of, window_of
from autoscaler.errors import InputError
from tests.prometheus.past import QUICK, FakePast, error, past

URL = "http://127.0.0.1:9090"
NOW_S = 1_700_000_017.0


def options(**how) -> PrometheusOptions:
    return PrometheusOptions(**{"server": URL, **how})


def settings_file(folder: Path) -> Path:
    path = folder / "settings.json"
    one = {"url": "https://prom:9090", "bearer_token_file": "/token", "ca_file": None}
    path.write_text(json.dumps({"prometheus": {"main": one}}))
    return path


def test_a_url_is_asked_as_it_is_and_a_name_is_looked_up_in_the_settings(tmp_path: Path) -> None:
    assert endpoint_of(options(token_file=Path("/t"))) == Endpoint(URL, Path("/t"))
    named = endpoint_of(options(server="main", config=settings_file(tmp_path)))
    assert named == Endpoint("https://prom:9090", Path("/token"))


REFUSED = {
    "an unknown name": (lambda config: {"server": "other", "config": config}, "--prometheus other: .*known: main"),
    "an address without http": (lambda _: {"server": "prom:9090"}, "its URL such as http://prom:9090"),
    "a token for a named one": (
        lambda config: {"server": "main", "config": config, "token_file": Path("t")}, "go with a URL",
    ),
    "a password in the URL": (lambda _: {"server": "http://u:p@host"}, "a token belongs in a file"),
    "another scheme": (lambda _: {"server": "ftp://host"}, "write http://host:port"),
    "certificates that are not there": (lambda config: {"ca_file": config.with_name("none")}, "no certificates in"),
    "certificates that are none": (lambda config: {"ca_file": config}, "no certificates in"),
}  # fmt: skip


@pytest.mark.parametrize(("how", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_an_endpoint_that_cannot_be_one_is_refused(tmp_path: Path, how, words: str) -> None:
    with pytest.raises(InputError, match=words):
        endpoint_of(options(**how(settings_file(tmp_path))))


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


WINDOWS = {
    "the last days": ({"days": 1.0}, None, 86_400),
    "days": ({"from_text": "2023-11-01", "to_text": "2023-11-03"}, "2023-11-01", 2 * 86_400),
    "hours": ({"from_text": "2023-11-01T08:00", "to_text": "2023-11-01T09:30"}, "2023-11-01T08:00", 5400),
    "another zone": ({"from_text": "2023-11-01T08:00+02:00", "to_text": "2023-11-01T07:00"}, "2023-11-01T06:00", 3600),
    "days before an end": ({"to_text": "2023-11-03", "days": 2.0}, "2023-11-01", 2 * 86_400),
}


@pytest.mark.parametrize(("how", "begin", "length_s"), WINDOWS.values(), ids=WINDOWS.keys())
def test_a_window_is_whole_steps_that_are_over(how, begin: str | None, length_s: int) -> None:
    window = window_of(options(**how), NOW_S)
    assert window.start_s % 30 == 0
    assert window.end_s - window.start_s == length_s
    assert window.end_s + settle_s(30, 60) <= NOW_S
    if begin is not None:
        assert window.start_s == at(begin)


def test_a_window_ends_where_the_newest_samples_are() -> None:
    window = window_of(options(from_text="2023-11-14", to_text="2030-01-01"), NOW_S)
    assert NOW_S - settle_s(30, 60) - 30 < window.end_s <= NOW_S - settle_s(30, 60)


NO_WINDOWS = {
    "no step": ({"step_s": 0}, "--step: 0"),
    "no time": ({"from_text": "yesterday"}, "--from 'yesterday': no time"),
    "backwards": ({"from_text": "2023-11-03", "to_text": "2023-11-01"}, "a time in the past"),
    "no days": ({"days": 0.0}, "--days: 0"),
    "the future": ({"from_text": "2029-01-01"}, "a time in the past"),
    "far too much": ({"from_text": "2020-01-01", "step_s": 1}, "of 1 to 1000000"),
    "not a number of days": ({"days": float("nan")}, "--days: nan"),
    "endless days": ({"days": float("inf")}, "--days: inf"),
}


@pytest.mark.parametrize(("how", "words"), NO_WINDOWS.values(), ids=NO_WINDOWS.keys())
def test_a_window_of_nothing_is_refused(how, words: str) -> None:
    with pytest.raises(InputError, match=words):
        window_of(options(**how), NOW_S)


def test_what_to_look_for_is_everything_unless_it_is_said() -> None:
    search = search_of(options(), Endpoint(URL))
    assert (search.wanted, search.namespaces, search.owner_labels) == ((), (), OWNER_LABELS)
    named = search_of(options(workloads=("a/b", "c/d"), selectors=('x="1"', 'y="2"')), Endpoint(URL))
    assert named.wanted == (Wanted("a/b", (("x", "=", "1"),)), Wanted("c/d", (("y", "=", "2"),)))
    own = search_of(options(metrics=("running=r", "duration_s=took_seconds")), Endpoint(URL))
    assert list(own.profiles) == ["custom"]
    assert [series.name for series in own.durations["custom"]] == ["took_seconds"]


NO_SEARCHES = {
    "selectors without workloads": ({"selectors": ('x="1"',)}, "--selector: 1 for 0 of --workload"),
    "a name without a namespace": ({"workloads": ("chat",)}, "write it as namespace/name"),
    "a name with two": ({"workloads": ("a/b/c",)}, "write it as namespace/name"),
    "a selector that ends the query": ({"workloads": ("a/b",), "selectors": ('x="1"} or up{',)}, "no matcher"),
    "a metric without a name": ({"metrics": ("running",)}, "write SIGNAL=NAME"),
    "a signal that is none": ({"metrics": ("speed=x",)}, "'speed' is no signal"),
    "metrics without load": ({"metrics": ("kv_cache_usage=x",)}, "at least one of waiting, running"),
}


@pytest.mark.parametrize(("how", "words"), NO_SEARCHES.values(), ids=NO_SEARCHES.keys())
def test_what_cannot_be_looked_for_is_refused(how, words: str) -> None:
    with pytest.raises(InputError, match=words):
        search_of(options(**how), Endpoint(URL))


def test_a_run_that_was_cut_keeps_its_window_and_another_question_does_not(tmp_path: Path) -> None:
    first, later = Window(1_700_000_010, 30, 100), Window(1_700_000_310, 30, 100)
    assert _pinned(tmp_path, options(), first) == (first, ())
    window, notes = _pinned(tmp_path, options(), later)
    assert (window, notes) == (first, ("goes on with a run that was cut: the window ends at 2023-11-14 23:03 UTC",))
    assert _pinned(tmp_path, options(days=7.0), later) == (later, ())
    (tmp_path / "window.json").write_bytes(msgspec.json.encode({"asked": "x"}))
    assert _pinned(tmp_path, options(), later) == (later, ())


COMMANDS = {
    "a server that is not there": (
        ["--prometheus", "http://127.0.0.1:1", "--workload", "a/b"],
        1,
        "connection refused by http://127.0.0.1:1; is the address right and the server up",
    ),
    "half a second": (["--prometheus", URL, "--step", "0.5"], 2, "--step"),
    "steps of half seconds": (["--prometheus", URL, "--step", "1.5"], 2, "whole seconds"),
    "nothing to read": ([], 2, "--prometheus URL, or --trace FILE"),
}


@pytest.mark.parametrize(("words", "code", "said"), COMMANDS.values(), ids=COMMANDS.keys())
def test_what_cannot_be_read_is_one_line_and_an_exit_code(
    tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    done = CliRunner().invoke(main.app, ["preflight", "--out", str(tmp_path / "out"), *words])
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "out").exists() == (code == 1), "only what was cut leaves what it read"


def engines(t_s: np.ndarray) -> list[tuple[dict[str, str], np.ndarray]]:
    signals = ("running", "waiting", "replicas", "busy_replicas", "arrivals_per_s")
    return [({"headroom_signal": name}, np.full(t_s.size, 2.0)) for name in signals]


def gpus(*namespaces: str) -> Callable[[np.ndarray], list[tuple[dict[str, str], np.ndarray]]]:
    def held(t_s: np.ndarray) -> list[tuple[dict[str, str], np.ndarray]]:
        eight = np.full(t_s.size, 8.0)
        rows = [({"headroom_signal": "held", "namespace": one}, eight) for one in namespaces]
        return [({"headroom_signal": "seen"}, np.ones(t_s.size)), *rows]

    return held


READS = {
    "all that is found": ((), ["b", "lab"]),
    "one namespace": (("--namespace", "lab"), ["lab"]),
    "one workload": (("--workload", "team/chat"), None),
}


def serving(fake: FakePast) -> None:
    """One engine without a break, and what kube-state-metrics tells of pods."""
    pod = {"namespace": "team", "pod": "chat-7d4b9c6f58-x2x9q", "job": "pods"}
    fake.series["num_requests_running"] = [{"__name__": "vllm:num_requests_running", **pod}]
    fake.ranges = {
        "count_over_time": lambda t_s: [({"job": "pods"}, np.full(t_s.size, 31.0))],
        "num_requests_running{": engines,
        "count(kube_pod_owner)": gpus("lab", "b"),
        'Running",exported_namespace=~"lab"': gpus("lab"),
        'Running",exported_namespace=~"team"': gpus(),
        '=~"kube_job': lambda t_s: [({"__name__": one}, np.ones(t_s.size)) for one in OF_PODS],
    }


async def examined(fake: FakePast, out: Path, *more: str) -> Result:
    words = ["preflight", "--prometheus", fake.url, "--from", "2023-11-01", "--to", "2023-11-04", "--step", "300"]
    return await asyncio.to_thread(CliRunner().invoke, main.app, [*words, "--out", str(out), *more])


@pytest.mark.parametrize(("more", "namespaces"), READS.values(), ids=READS.keys())
async def test_a_cluster_with_gpu_jobs_becomes_a_queue_for_each_namespace_that_is_looked_at(
    tmp_path: Path, more: tuple[str, ...], namespaces: list[str] | None
) -> None:
    async with past() as fake:
        serving(fake)
        done = await examined(fake, tmp_path, *more)
    assert done.exit_code == 0, done.output
    batch = json.loads((tmp_path / "preflight.json").read_text())["batch"]
    assert (batch and [one["namespace"] for one in batch["queues"]]) == namespaces
    drafts = (tmp_path / "queues.yaml").read_text()
    assert drafts.count("    - shape: gpu\n") == len(namespaces or ())
    assert done.stdout.count("GPUs at once: 8 GPUs or more half of the time") == len(namespaces or ())
    assert ("How long they stay: not measured" in done.stdout) == bool(namespaces)


async def test_jobs_elsewhere_are_not_denied_where_one_namespace_is_looked_at(tmp_path: Path) -> None:
    async with past() as fake:
        serving(fake)
        done = await examined(fake, tmp_path, "--namespace", "team")
    assert done.exit_code == 0, done.output
    files = [(tmp_path / name).read_text() for name in ("queues.yaml", "preflight.html")]
    for text in (done.stdout, *files):
        said = " ".join(text.replace("#", "").split())
        assert "GPU Jobs: none in the namespaces that were looked at: no pod of a Job there asked for nvidia" in said
    assert json.loads((tmp_path / "preflight.json").read_text())["batch"]["namespaces"] == ["team"]


@pytest.mark.parametrize("spaces", [("team",), ("lab", "team")], ids=["one", "two"])
async def test_with_a_namespace_nothing_is_asked_of_others(tmp_path: Path, spaces: tuple[str, ...]) -> None:
    """A proxy that lets a tenant ask for its own namespace alone refuses the whole query otherwise."""
    more = [word for space in spaces for word in ("--namespace", space)]
    async with past() as fake:
        serving(fake)
        done = await examined(fake, tmp_path, *more)
    assert done.exit_code == 0, done.output
    texts = [form.get("query") or form["match[]"] for form in fake.asked]
    either = re.escape("|".join(spaces))
    for text in texts:
        chosen = re.findall(r'\{(?:"[^"]*"|[^"}])*\}', text)
        assert chosen, text
        # What is found in the first answer may be asked for by its own namespace.
        assert all(re.search(rf'namespace=~?"({either}|team)"', one) for one in chosen), text
        assert not re.search(r"\b(kube|vllm:)\w+(?![\w{])", re.sub(r'"[^"]*"', '""', text)), text
    assert sum("kube_job_status_start_time" in text for text in texts) == 2


def hurried(monkeypatch: pytest.MonkeyPatch, patience: Patience) -> None:
    monkeypatch.setattr(preflight_prometheus, "Persistence", partial(Persistence, patience=patience))


UNTOLD = {
    "refused": (403, "HTTP 403: not today (needed: a token that may ask this Prometheus", False),
    "no longer answered": (502, "the same command goes on from there (needed: an answer: the same command", True),
}


@pytest.mark.parametrize(("status", "why", "goes_on"), UNTOLD.values(), ids=UNTOLD.keys())
async def test_workloads_that_were_read_are_reported_where_questions_about_jobs_end_in_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, why: str, goes_on: bool
) -> None:
    """A fifth of a second stands for the three minutes after which a server is gone."""
    hurried(monkeypatch, Patience(attempts=9, first_wait_s=0.05, longest_wait_s=0.1, gone_s=0.2))
    async with past() as fake:
        serving(fake)
        fake.fault = lambda form: error(status, "not today") if OWNERS in form.get("query", "") else None
        done = await examined(fake, tmp_path)
        files = [(tmp_path / name).read_text() for name in ("queues.yaml", "preflight.html")]
        fake.fault = lambda _form: None
        again = await examined(fake, tmp_path)
    assert done.exit_code == 0, done.output
    assert "team/chat" in done.stdout
    for text in (done.stdout, *files):
        said = " ".join(text.replace("#", "").split())
        assert "GPU Jobs: not measured: http" in said
        assert why in said
    assert ("goes on with a run that was cut" in again.stderr) == goes_on
    assert "GPU Jobs of namespace lab" in again.stdout


async def test_among_the_questions_about_jobs_no_lost_part_of_a_workload_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that gives up over it would take the Jobs along, and the workload's own reason."""
    hurried(monkeypatch, QUICK)
    async with past() as fake:
        serving(fake)
        fake.fault = lambda form: error(502, "gone") if "num_requests_running{" in form.get("query", "") else None
        await examined(fake, tmp_path)
    queries = [form["query"] for form in fake.asked if "query" in form]
    first = next(at for at, query in enumerate(queries) if OWNERS in query)
    assert first > 0
    assert len(queries[first:]) == 3
