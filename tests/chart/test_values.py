"""Wrong values are refused before anything is installed: each by its path, contradictions with what to change."""

from collections.abc import Iterator
from typing import Any, Final

import jsonschema
import pytest

from tests.chart.rendering import refusal
from tests.chart.schema import OF_THE_CHART, values_schema

Form = dict[str, Any]

WRONG: Final[dict[str, tuple[Form, str, str]]] = {
    "too many replicas": ({"replicas": 6}, "replicas", "less than or equal to 5"),
    "no replica": ({"replicas": 0}, "replicas", "greater than or equal to 1"),
    "a text for a number": ({"replicas": "two"}, "replicas", "integer"),
    "an unknown value": ({"replicaCount": 2}, "(root)", "replicaCount is not allowed"),
    "an unknown setting": ({"settings": {"interval_s": 2}}, "settings", "interval_s is not allowed"),
    "an unknown mode": ({"settings": {"default_mode": "shadow"}}, "settings.default_mode", "PausedScaleIn"),
    "an interval out of range": ({"settings": {"scrape": {"interval_s": 0.5}}}, "settings.scrape.interval_s", "1"),
    "a setting of the chart": ({"settings": {"namespace": "other"}}, "settings", "namespace is not allowed"),
    "a setting for tests": ({"settings": {"allow_loopback_targets": True}}, "settings", "is not allowed"),
    "a kind without version": (
        {"settings": {"kinds": [{"resource": "deployments", "kind": "Deployment"}]}}, "settings.kinds.0", "version",
    ),
    "a wildcard for a kind": (
        {"settings": {"kinds": [{"version": "v1", "resource": "*", "kind": "Any"}]}}, "settings.kinds.0.resource", "^",
    ),
    "a port beyond ports": ({"settings": {"http": {"port": 70000}}}, "settings.http.port", "65535"),
    "a namespace in capitals": ({"settings": {"watch_namespaces": ["Prod"]}}, "settings.watch_namespaces.0", "^"),
    "a digest that is none": ({"image": {"digest": "latest"}}, "image.digest", "sha256"),
    "a quantity that is none": ({"resources": {"limits": {"memory": "much"}}}, "resources.limits.memory", ""),
    "a resource that the pod has no use for": ({"resources": {"limits": {"gpu": 1}}}, "resources.limits", "gpu"),
    "an effect that is none": ({"tolerations": [{"effect": "Never"}]}, "tolerations.0.effect", "NoSchedule"),
    "a source that is none": ({"certificates": {"source": "vault"}}, "certificates.source", "certManager"),
    "an address that is none": ({"networkPolicy": {"apiServerCidrs": ["api"]}}, "networkPolicy.apiServerCidrs.0", "^"),
    "an option of alerts that is none": ({"monitoring": {"rules": {"on": 1}}}, "monitoring.rules", "on is not allowed"),
    "a mount without a path": ({"secretMounts": [{"secret": "s"}]}, "secretMounts.0", "path"),
    "a mount that climbs": ({"secretMounts": [{"secret": "s", "path": "/etc/../opt"}]}, "secretMounts.0.path", "^"),
    "an address beyond addresses": (
        {"networkPolicy": {"callCidrs": [{"cidr": "10.0.0.256/24", "ports": [1]}]}},
        "networkPolicy.callCidrs.0.cidr", "^",
    ),
    "a mask beyond masks": (
        {"networkPolicy": {"apiServerCidrs": ["fd00::/129"]}}, "networkPolicy.apiServerCidrs.0", "^",
    ),
    "a label that is none": ({"podLabels": {"team": "a b"}}, "podLabels.team", "^"),
    "a key that is none": ({"podLabels": {"a b": "team"}}, "podLabels", "a b is not allowed"),
    "a repository with its tag": ({"image": {"repository": "x/headroom:1"}}, "image.repository", "^"),
    "a repository in capitals": ({"image": {"repository": "X/headroom"}}, "image.repository", "^"),
    "a namespace twice": ({"settings": {"watch_namespaces": ["a", "a"]}}, "settings.watch_namespaces", "be unique"),
    "a URL that is none": (
        {"settings": {"prometheus": {"main": {"url": "ftp://p"}}}}, "settings.prometheus.main.url", "^https?",
    ),
    "a password in a URL": (
        {"settings": {"prometheus": {"main": {"url": "http://a:b@p"}}}}, "settings.prometheus.main.url", "^https?",
    ),
    "a selector that is none": (
        {"settings": {"gateways": {"main": {"namespace": "g", "port": 1, "selector": "app in ("}}}},
        "settings.gateways.main.selector", "^",
    ),
    "an interval of nothing": (
        {"monitoring": {"podMonitor": {"interval": "0s"}}}, "monitoring.podMonitor.interval", "^[1-9]",
    ),
    "a caller's name that no certificate can have": (
        {"certificates": {"clientNames": ["kéda"]}}, "certificates.clientNames.0", "^",
    ),
    "a reader without a namespace": ({"rbac": {"readers": [{"name": "prometheus"}]}}, "rbac.readers.0", "namespace"),
    "a value taken away": ({"replicas": None}, "(root)", "replicas is required"),
    "a part taken away": ({"image": None}, "(root)", "image is required"),
    "a setting of a part taken away": ({"rbac": {"scaling": None}}, "rbac", "scaling is required"),
}  # fmt: skip

KEDA: Final = {"keda": {"enabled": True}}
CONTRADICTIONS: Final[dict[str, tuple[Form, str]]] = {
    "acts without rights": (
        {"settings": {"default_mode": "Active"}, "rbac": {"scaling": False}},
        "set rbac.scaling to true, or settings.default_mode to Shadow",
    ),
    "marks pods without rights": (
        {"settings": {"deletion_cost": True}, "rbac": {"scaling": False}}, "leave one of them out",
    ),
    "everywhere without nodes": ({"rbac": {"nodes": False}}, "list the namespaces, or set rbac.nodes to true"),
    "a budget without nodes": (
        {"rbac": {"nodes": False}, "settings": {"watch_namespaces": ["a"], "budgets": {"cluster_gpus": 0}}},
        "set rbac.nodes to true, or leave the budget out",
    ),
    "batch without nodes": (
        {"rbac": {"nodes": False}, "settings": {"watch_namespaces": ["a"], "batch": {"enabled": True}}},
        "set rbac.nodes to true, or leave batch out",
    ),
    "warm pools without nodes": (
        {"rbac": {"nodes": False}, "settings": {"watch_namespaces": ["a"], "warm_pools": {"enabled": True}}},
        "set rbac.nodes to true, or leave warm pools out",
    ),
    "slots beside the controller": (
        {"settings": {"warm_pools": {"enabled": True, "namespace": "headroom-system"}}}, "name another",
    ),
    "nobody's account": ({"serviceAccount": {"create": False}}, "name an account, or let the chart make one"),
    "KEDA without a certificate": (
        {"settings": KEDA, "certificates": {"source": "none"}}, "or set settings.keda.plaintext to true",
    ),
    "plain and encrypted": (
        {"settings": {"keda": {"enabled": True, "plaintext": True}}}, "set certificates.source to none",
    ),
    "plain and off": (
        {"settings": {"keda": {"plaintext": True}}, "certificates": {"source": "none"}}, "enable it, or leave",
    ),
    "a port with a certificate that nobody makes": (
        {"certificates": {"http": True, "source": "none"}}, "or leave certificates.http out",
    ),
    "a secret for the port without a name": (
        {"certificates": {"http": True, "source": "secret"}}, "name a Secret of this namespace",
    ),
    "an issuer for the port without a name": (
        {"certificates": {"http": True, "source": "certManager"}}, "name an issuer",
    ),
    "tokens in the clear": ({"settings": {"http": {"authorize": True}}}, "set certificates.http to true, or leave"),
    "readers whom nobody asks": (
        {"rbac": {"readers": [{"namespace": "a", "name": "b"}]}}, "set settings.http.authorize to true, or leave",
    ),
    "a monitor that cannot show a token": (
        {"settings": {"http": {"authorize": True}}, "certificates": {"http": True},
         "monitoring": {"podMonitor": {"enabled": True}}}, "enable monitoring.serviceMonitor instead",
    ),
    "readers with the controller's rights": (
        {"settings": {"http": {"authorize": True, "reader": "headroom"}}, "certificates": {"http": True}},
        "settings.http.reader is headroom, the controller's own account",
    ),
    "a secret without a name": (
        {"settings": KEDA, "certificates": {"source": "secret"}}, "name a Secret of this namespace",
    ),
    "a name without a secret": (
        {"settings": KEDA, "certificates": {"secretName": "mine"}}, "set certificates.source to secret",
    ),
    "cert-manager without an issuer": (
        {"settings": KEDA, "certificates": {"source": "certManager"}}, "name an issuer",
    ),
    "an issuer that KEDA's namespace cannot use": (
        {"settings": KEDA, "certificates": {
            "source": "certManager", "certManager": {"issuer": "mine", "issuerKind": "Issuer"}}},
        "use a ClusterIssuer, or set keda.clusterTriggerAuthentication to false",
    ),
    "renewed after its end": (
        {"certificates": {"helm": {"validDays": 240}}}, "is not below validDays 240",
    ),
    "one port for two": ({"settings": {"keda": {"enabled": True, "port": 8080}}}, "are both 8080; change one"),
    "read twice": (
        {"monitoring": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}}, "enable one",
    ),
    "a record that is not kept": ({"settings": {"audit": {"keep": 2}}}, "set audit.enabled to true"),
    "the value of another's class": (
        {"priorityClass": {"create": False, "value": 7}}, "leave the value out",
    ),
    "a lease that two could hold": (
        {"settings": {"lease": {"deadline_s": 10}}}, "lower the deadline, or two replicas could write at once",
    ),
    "a lease that runs out between two renewals": (
        {"settings": {"lease": {"renew_s": 7}}}, "renew more often",
    ),
    "a page that takes longer than its turn": (
        {"settings": {"scrape": {"timeout_s": 2}}}, "lower the time-out",
    ),
    "a burst below a second's worth": ({"settings": {"kube": {"qps": 200}}}, "raise burst or lower qps"),
    "a part above the whole": (
        {"settings": {"budgets": {"cluster_gpus": 0, "namespaces": {"prod": 4}}}}, "lower it or raise cluster_gpus",
    ),
    "a token that nobody mounts": (
        {"settings": {"prometheus": {"main": {"url": "http://p:9090", "bearer_token_file": "/etc/token"}}}},
        "mount the Secret that holds the file",
    ),
    "a kind without scale": (
        {"settings": {"kinds": [{"version": "v1", "resource": "pods", "kind": "Pod"}]}}, "serves no /scale",
    ),
    "a kind of two versions": (
        {"settings": {"kinds": [
            {"group": "a.b", "version": version, "resource": "cs", "kind": "C"} for version in ("v1", "v2")]}},
        "list one version of it",
    ),
    "shared and whole": (
        {"settings": {"shapes": {"h100": {"sku": "H100", "sharing": "mig"}}}}, "whole GPUs have 1 part",
    ),
    "more asked for than allowed": (
        {"resources": {"requests": {"memory": "1.5Gi"}}}, "resources.requests.memory 1.5Gi is above",
    ),
    "a setting beside the settings": (
        {"env": {"HEADROOM_HTTP__PORT": "81"}}, "leave it out and give settings.http.port",
    ),
    "a label that finds pods": ({"podLabels": {"headroom.dev/leader": "true"}}, "choose another key"),
    "a checksum that never changes": ({"podAnnotations": {"checksum/settings": "1"}}, "choose another key"),
    "any value of a value": (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "leave the value out",
    ),
    "no key of a value": ({"tolerations": [{"value": "b"}]}, "set operator to Exists"),
    "a time without an end": (
        {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]}, "leave tolerationSeconds out",
    ),
    "a mount above the certificates": (
        {"secretMounts": [{"secret": "s", "path": "/etc/headroom"}]}, "choose another, such as /etc/headroom/secrets",
    ),
    "two mounts at one place": (
        {"secretMounts": [{"secret": s, "path": "/etc/x"} for s in ("a", "b")]}, "choose another, such as",
    ),
    "one Service for two": ({"settings": {"keda": {"enabled": True, "service": "headroom"}}}, "choose another"),
    "a freeze that never ends": ({"settings": {"freeze_config_map": "headroom"}}, "would freeze all action"),
    "a dashboard that freezes": (
        {"settings": {"freeze_config_map": "headroom-dashboard-batch"}}, "would freeze all action",
    ),
    "Kubernetes' own class": ({"priorityClass": {"name": "system-x"}}, "choose another, or set priorityClass.create"),
    "one class for slots and controller": (
        {"priorityClass": {"name": "headroom-slot"}, "settings": {"warm_pools": {"enabled": True}}}, "change one",
    ),
    "slots where work is": (
        {"settings": {"warm_pools": {"enabled": True}, "watch_namespaces": ["headroom-slots"]}}, "name another",
    ),
    "everybody's account": ({"serviceAccount": {"name": "default"}}, "which every namespace has already"),
    "a label of the chart's": (
        {"monitoring": {"rules": {"labels": {"helm.sh/chart": "mine"}}}}, "monitoring.rules.labels has helm.sh/chart",
    ),
    "a port of the administrator's": ({"settings": {"http": {"port": 80}}}, "choose 1024 or above"),
    "read by nobody": (
        {"monitoring": {"podMonitor": {"enabled": True}}, "networkPolicy": {"httpFrom": []}}, "name its namespace",
    ),
    "a Prometheus behind the policy": (
        {"settings": {"watch_namespaces": ["a"], "prometheus": {"main": {"url": "http://prom.monitoring.svc:9090"}}}},
        "add it to networkPolicy.callNamespaces",
    ),
    "a Prometheus outside": (
        {"settings": {"prometheus": {"main": {"url": "http://prom.example.com:9090"}}}}, "to networkPolicy.callCidrs",
    ),
    "an issuer that nobody asks": ({"certificates": {"certManager": {"issuer": "mine"}}}, "or leave the issuer out"),
    "renewed before it is made": (
        {"certificates": {"certManager": {"duration": "12h", "renewBefore": "720m"}}}, "is not below duration 12h",
    ),
    "rights for what nobody admits": (
        {"rbac": {"jobSets": True}}, "set settings.batch.enabled to true, or leave rbac.jobSets out",
    ),
    "rights on more kinds of it": (
        {"rbac": {"trainingJobs": True}}, "set settings.batch.enabled to true, or leave rbac.trainingJobs out",
    ),
    "TrainJobs without JobSets": (
        {"rbac": {"trainJobs": True}, "settings": {"batch": {"enabled": True}}},
        "set rbac.jobSets to true, or leave rbac.trainJobs out",
    ),
    "pods without batch": ({"rbac": {"podNamespaces": ["lab"]}}, "or leave rbac.podNamespaces out"),
    "pods where nothing is watched": (
        {"rbac": {"podNamespaces": ["lab"]}, "settings": {"batch": {"enabled": True}, "watch_namespaces": ["team"]}},
        "rbac.podNamespaces has lab, which is none of settings.watch_namespaces",
    ),
    "an alert that is none": (
        {"monitoring": {"rules": {"enabled": True, "disabled": ["Headroom"]}}}, "which is no alert of this chart",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def said() -> dict[str, list[str]]:
    """What Helm says of each wrong value. It tells all faults at once, so what fits together is given together."""
    batches: list[tuple[Form, list[str]]] = []
    for name, (values, _, _) in WRONG.items():
        for number, (given, names) in enumerate(batches):
            if (together := merged(given, values)) is not None:
                batches[number] = (together, [*names, name])
                break
        else:
            batches.append((values, [name]))
    return {name: refusal(given).split(" - ") for given, names in batches for name in names}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_by_its_path(said: dict[str, list[str]], name: str) -> None:
    _, path, words = WRONG[name]
    assert [one for one in said[name] if one.startswith(f"{path}: ") and words in one], said[name]


@pytest.mark.parametrize(("values", "words"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_values_that_contradict_each_other_are_refused_with_what_to_change(values: Form, words: str) -> None:
    assert words in refusal(values)


def test_every_value_of_a_wrong_type_is_named() -> None:
    leaves = dict(paths(values_schema(), ()))
    wrong: Form = {}
    for path, form in leaves.items():
        put(wrong, path, wrong_for(form))
    said = refusal(wrong)
    missing = [".".join(path) for path in leaves if f"- {'.'.join(path)}: " not in said]
    assert len(leaves) > 90
    assert missing == []


def test_no_part_of_the_values_takes_what_it_does_not_know() -> None:
    for path, form in parts(values_schema(), ()):
        assert "additionalProperties" in form, f"{'.'.join(path)} takes anything"
        assert form["additionalProperties"] in (False, {"type": "string"})


def test_the_schema_is_one_and_has_no_room_for_what_the_chart_decides() -> None:
    schema = values_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    known = {".".join(path) for path, _ in paths(schema["properties"]["settings"], ())}
    assert not known & set(OF_THE_CHART)


def merged(one: Form, other: Form) -> Form | None:
    """Both in one; None where they say two things of one value."""
    result = one | other
    for name in one.keys() & other.keys():
        both = one[name], other[name]
        if not all(isinstance(value, dict) for value in both):
            return None
        result[name] = merged(*both)
        if result[name] is None:
            return None
    return result


def parts(form: Form, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Form]]:
    """Every map of the schema, and where it is."""
    if form.get("type") == "object":
        yield path, form
        inner = {**form.get("properties", {}), **form.get("patternProperties", {})}
        for name, below in inner.items():
            yield from parts(below, (*path, name))
    if "items" in form:
        yield from parts(form["items"], (*path, "0"))


def paths(form: Form, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Form]]:
    """Every value that can be given by a fixed name, and its form."""
    for name, inner in form.get("properties", {}).items():
        if "properties" in inner:
            yield from paths(inner, (*path, name))
        else:
            yield (*path, name), inner


def wrong_for(form: Form) -> Any:
    """A value of another type."""
    return "wrong" if form.get("type") in {"object", "array", "boolean", "integer", "number"} else [True]


def put(values: Form, path: tuple[str, ...], value: Any) -> None:
    """Set one value deep in `values`."""
    *above, last = path
    for name in above:
        values = values.setdefault(name, {})
    values[last] = value
