"""Settings from file, environment and flags: who wins, and that every fault names where it stands."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api.modes import Mode
from autoscaler.errors import InputError
from autoscaler.settings.load import load_settings
from autoscaler.settings.model import Settings

ENDPOINT = {"namespace": "gw", "selector": "app=gw", "port": 9090}


@pytest.fixture(autouse=True)
def _no_variables_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith("HEADROOM_"):
            monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """Writes a settings file and gives its path."""

    def write(text: str, name: str = "settings.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def refusal(**arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_settings(**arguments)
    return str(caught.value)


def test_nothing_given_means_the_defaults_and_watching_only() -> None:
    settings = load_settings()
    assert settings == Settings()
    assert settings.default_mode is Mode.SHADOW
    assert [kind.kind for kind in settings.kinds] == ["Deployment", "StatefulSet", "LeaderWorkerSet"]
    assert (settings.budgets.cluster_gpus, settings.watch_namespaces, settings.audit.directory) == (None, (), None)


def test_flags_win_over_the_environment_over_the_file_field_by_field(file: Any, monkeypatch: Any) -> None:
    path = file("kube: {qps: 10, burst: 20, context: of-the-file}\nscrape: {interval_s: 3}\nlog_level: debug")
    monkeypatch.setenv("HEADROOM_KUBE__BURST", "30")
    monkeypatch.setenv("HEADROOM_KUBE__CONTEXT", "of-the-environment")
    settings = load_settings(config=path, flags={"kube": {"context": "of-the-flag"}})
    assert (settings.kube.qps, settings.kube.burst, settings.kube.context) == (10, 30, "of-the-flag")
    assert (settings.scrape.interval_s, settings.log_level.value) == (3, "debug")


def test_the_file_may_be_named_by_a_variable_and_a_flag_names_another(file: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HEADROOM_CONFIG", str(file("namespace: one", "one.yaml")))
    assert load_settings().namespace == "one"
    assert load_settings(config=file("namespace: two", "two.yaml")).namespace == "two"


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "null"])
def test_an_empty_file_says_nothing(file: Any, text: str) -> None:
    assert load_settings(config=file(text)) == Settings()


def test_a_json_file_may_be_indented_with_tabs(file: Any) -> None:
    assert load_settings(config=file('{\n\t"namespace": "gpu"\n}', "settings.json")).namespace == "gpu"


VARIABLES: list[tuple[str, str, Any]] = [
    ("HEADROOM_SCRAPE__INTERVAL_S", "2.5", lambda s: s.scrape.interval_s == 2.5),
    ("HEADROOM_SCRAPE__FOLLOWER_SCRAPES", "true", lambda s: s.scrape.follower_scrapes is True),
    ("HEADROOM_DEFAULT_MODE", "Active", lambda s: s.default_mode is Mode.ACTIVE),
    ("HEADROOM_AUDIT__DIRECTORY", "/var/lib/headroom", lambda s: s.audit.directory == Path("/var/lib/headroom")),
    ("HEADROOM_AUDIT__DIRECTORY", "", lambda s: s.audit.directory is None),
    ("HEADROOM_WATCH_NAMESPACES", '["a", "b"]', lambda s: s.watch_namespaces == ("a", "b")),
    ("HEADROOM_BUDGETS__NAMESPACES", '{"team-a": 8}', lambda s: s.budgets.namespaces == {"team-a": 8}),
    ("HEADROOM_GATEWAYS", json.dumps({"main": ENDPOINT}), lambda s: s.gateways["main"].port == 9090),
    ("HEADROOM_GATEWAYS__MAIN", json.dumps(ENDPOINT), lambda s: s.gateways["main"].path == "/metrics"),
    ("HEADROOM_PROMETHEUS__MAIN__URL", "http://prom:9090/", lambda s: s.prometheus["main"].url == "http://prom:9090"),
]


@pytest.mark.parametrize(("name", "text", "holds"), VARIABLES, ids=[f"{n}={t}" for n, t, _ in VARIABLES])
def test_a_variable_sets_its_field(monkeypatch: Any, name: str, text: str, holds: Any) -> None:
    monkeypatch.setenv(name, text)
    assert holds(load_settings())


FAULTY_VARIABLES: list[tuple[str, str, str]] = [
    ("HEADROOM_SCRAPE__INTERVAL_S", "9", "scrape.interval_s: '9' is out of range; it must be a number, 1..5 s"),
    ("HEADROOM_SCRAPE__INTERVALS", "9", "scrape.intervals: unknown field; known are interval_s, timeout_s,"),
    ("HEADROOM_SCRAPE", "often", "scrape: 'often' is no object; give one with interval_s, timeout_s"),
    ("HEADROOM_KINDS", "Deployment", "kinds: 'Deployment' is out of range; it must be a list of 1..32"),
    ("HEADROOM_KINDS", '[{"resource": "x", "kind": "X"}]', "kinds[0].version: missing; it must be a version such as"),
    ("HEADROOM_WATCH_NAMESPACES", '["a", "B"]', "watch_namespaces[1]: 'B' is out of range; it must be a name of at"),
    ("HEADROOM_BUDGETS__NAMESPACES", '{"a": -1}', "budgets.namespaces.a: -1 is out of range; it must be a whole"),
    ("HEADROOM_ALLOW_LOOPBACK_TARGETS", "maybe", "allow_loopback_targets: 'maybe' is out of range; it must be true or"),
    ("HEADROOM_SCRAP__INTERVAL_S", "2", "unknown variable; did you mean HEADROOM_SCRAPE__INTERVAL_S?"),
    ("HEADROOM_HTTP_PORT", "8081", "unknown variable; did you mean HEADROOM_HTTP__PORT?"),
    ("HEADROOM_LOGLEVEL", "debug", "unknown variable; did you mean HEADROOM_LOG_LEVEL?"),
]


@pytest.mark.parametrize(
    ("name", "text", "message"), FAULTY_VARIABLES, ids=[f"{n}={t}" for n, t, _ in FAULTY_VARIABLES]
)
def test_a_faulty_variable_is_refused_by_name(monkeypatch: Any, name: str, text: str, message: str) -> None:
    monkeypatch.setenv(name, text)
    assert refusal().startswith(f"{name}: {message}")


def test_variables_that_the_kubelet_sets_for_a_service_called_headroom_are_left_alone(monkeypatch: Any) -> None:
    # With enableServiceLinks, the default, pods get these for the Services headroom and headroom-http beside them.
    for name, value in {
        "HEADROOM_SERVICE_HOST": "10.0.0.7",
        "HEADROOM_SERVICE_PORT": "8080",
        "HEADROOM_SERVICE_PORT_HTTP": "8080",
        "HEADROOM_PORT": "tcp://10.0.0.7:8080",
        "HEADROOM_PORT_8080_TCP": "tcp://10.0.0.7:8080",
        "HEADROOM_PORT_8080_TCP_PROTO": "tcp",
        "HEADROOM_PORT_8080_TCP_PORT": "8080",
        "HEADROOM_PORT_8080_TCP_ADDR": "10.0.0.7",
        "HEADROOM_HTTP_SERVICE_HOST": "10.0.0.8",
        "HEADROOM_HTTP_PORT": "tcp://10.0.0.8:80",
        "HEADROOM_HTTP_PORT_80_TCP_ADDR": "10.0.0.8",
    }.items():
        monkeypatch.setenv(name, value)
    assert load_settings() == Settings()


FAULTY_FILES: list[tuple[str, str]] = [
    ("scrape: [", "while parsing a flow node"),
    ("- a", "Expected `object | null`, got `array`; give a map of settings in YAML"),
    ("1: a", "Expected `str`, got `int`"),
    ("scarpe: {}", "scarpe: unknown field; did you mean scrape?"),
    ("_env_file: x", "_env_file: unknown field; known are allow_loopback_targets, audit,"),
    ("scrape: {interval_s: yes}", "scrape.interval_s: true is no number; give one"),
    ("http: {port: no}", "http.port: false is no number; give one"),
    ("http: {port: 0}", "http.port: 0 is out of range; it must be a whole number, 1..65535"),
    ("limits: {workloads: 6001}", "limits.workloads: 6001 is above 6000, of which checkpoints can be kept: with"),
    ("limits: {workloads: 0}", "limits.workloads: 0 is out of range; it must be a whole number, 1..6000"),
    ("namespace: Headroom", "namespace: 'Headroom' is out of range; it must be a name of at most 63 of a-z, 0-9 and -"),
    ("namespace: 5", "namespace: 5 is out of range; it must be a name of at most 63"),
    ("default_mode: active", "default_mode: 'active' is out of range; it must be one of Shadow, Active, Paused"),
    ("log_level: loud", "log_level: 'loud' is out of range; it must be one of debug, info, warning, error"),
    ("kinds: []", "kinds: a list is out of range; it must be a list of 1..32"),
    ("gpu_resource_names: [gpu]", "gpu_resource_names[0]: 'gpu' is out of range; it must be a resource such as"),
    ("gateways: {A_B: {}}", "gateways.A_B: 'A_B' is out of range; it must be a name of at most 63 of a-z, 0-9 and -"),
    ("gateways: {main: {}}", "gateways.main.namespace: missing; it must be a name"),
    ("gateways: 3", "gateways: 3 is out of range; it must be an object"),
    ("prometheus: {main: {url: prom}}", "prometheus.main.url: 'prom' is no base URL; give one such as http://prom"),
    ("prometheus: {main: {url: 'http://p:9090/?a=b'}}", "prometheus.main.url: 'http://p:9090/?a=b' is no base URL"),
    ("prometheus: {main: {url: 'http://p:99999'}}", "prometheus.main.url: Port out of range 0-65535"),
]


@pytest.mark.parametrize(("text", "message"), FAULTY_FILES, ids=[text for text, _ in FAULTY_FILES])
def test_a_faulty_file_is_refused_by_path_and_field(file: Any, text: str, message: str) -> None:
    path = file(text)
    assert refusal(config=path).startswith(f"{path}: {message}")


def test_a_file_that_is_not_there_is_no_empty_file(tmp_path: Path) -> None:
    assert refusal(config=tmp_path / "none.yaml").endswith(
        "none.yaml: cannot be read (No such file or directory); give a file that can"
    )


def test_a_faulty_flag_is_refused_as_such() -> None:
    assert refusal(flags={"http": {"port": 0}}).startswith("the command line: http.port: 0 is out of range")


def test_a_rule_that_joins_fields_names_every_source_that_had_a_say(file: Any, monkeypatch: Any) -> None:
    path = file("lease: {renew_s: 8}")
    monkeypatch.setenv("HEADROOM_LEASE__DURATION_S", "9")
    assert refusal(config=path) == (
        f"HEADROOM_LEASE__DURATION_S, {path}: lease: renew_s 8 is not below deadline_s 7; renew more often, "
        "or the lease is given up between two renewals"
    )


def test_the_source_that_lost_is_not_blamed(file: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HEADROOM_HTTP__PORT", "70000")
    assert refusal(config=file("http: {port: 80}")).startswith(
        "HEADROOM_HTTP__PORT: http.port: '70000' is out of range"
    )


@pytest.mark.parametrize("url", ["http://admin:sekret@prom:9090", "ftp://x:sekret@y", "sekret@", "http:/u:sekret@x"])
def test_a_password_in_a_url_is_refused_and_not_repeated(monkeypatch: Any, url: str) -> None:
    monkeypatch.setenv("HEADROOM_PROMETHEUS__MAIN__URL", url)
    message = refusal()
    assert message.startswith("HEADROOM_PROMETHEUS__MAIN__URL: prometheus.main.url: it carries a user name or password")
    assert "sekret" not in message


def test_a_field_that_does_not_exist_is_refused_without_its_value(monkeypatch: Any) -> None:
    monkeypatch.setenv("HEADROOM_PROMETHEUS__MAIN__BEARER_TOKEN", "sekret")
    monkeypatch.setenv("HEADROOM_PROMETHEUS__MAIN__URL", "http://prom:9090")
    message = refusal()
    assert message.startswith("HEADROOM_PROMETHEUS__MAIN__BEARER_TOKEN: prometheus.main.bearer_token: unknown field")
    assert "sekret" not in message
