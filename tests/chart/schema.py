"""The schema of the chart's values: the chart's own by hand, `settings` out of the controller's model.

Leaves: JSON schema (draft 7, which is what Helm 3 reads) that refuses whatever it does not know. A setting that the
chart itself decides, or that is for tests, is unknown to it.
"""

from typing import Any, Final

from autoscaler.api.schema import resolved, schema_of
from autoscaler.settings.model import Settings
from tests.chart.docstrings import Said, said_of

Form = dict[str, Any]

OF_THE_CHART: Final = {
    "namespace": "the release's namespace",
    "identity": "the pod's name",
    "allow_loopback_targets": "for tests only",
    "kube.kubeconfig": "the service account is used",
    "kube.context": "the service account is used",
    "http.host": "all addresses of the pod",
    "http.advertised_host": "the pod's address",
    "http.tls": "values certificates",
    "keda.host": "all addresses of the pod",
    "keda.tls": "values certificates",
    "audit.directory": "values audit",
}
"""Setting -> what it is in the chart."""

NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
OBJECT: Final = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
DURATION: Final = r"^([0-9]+(ms|s|m|h))+$"
MONITOR_INTERVAL: Final = r"^[1-9][0-9]*(ms|s|m|h)$"
_OCTET: Final = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
CIDR: Final = (
    rf"^({_OCTET}\.){{3}}{_OCTET}/(3[0-2]|[12]?[0-9])$"
    r"|^[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,7}/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$"
)
FOLDER: Final = r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"
_HOST: Final = r"([A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(:[0-9]{1,5})?|[A-Za-z0-9-]+:[0-9]{1,5})"
_PATH: Final = r"[a-z0-9]+([._-]+[a-z0-9]+)*"
REPOSITORY: Final = rf"^({_HOST}/)?{_PATH}(/{_PATH})*$"
KEY: Final = r"^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$"
LABEL: Final = r"^([A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?)?$"

_TEXT: Final[Form] = {"type": "string"}
_BOOL: Final[Form] = {"type": "boolean"}
_PORT: Final[Form] = {"type": "integer", "minimum": 1, "maximum": 65535}


def _text(pattern: str, *, empty: bool = False, longest: int = 253) -> Form:
    return {"type": "string", "pattern": f"^$|{pattern}" if empty else pattern, "maxLength": longest}


def _choice(*values: str) -> Form:
    return {"type": "string", "enum": list(values)}


def _list(item: Form) -> Form:
    return {"type": "array", "items": item, "uniqueItems": True}


def _object(fields: dict[str, Form], *required: str) -> Form:
    form: Form = {"type": "object", "additionalProperties": False, "properties": fields}
    return form | ({"required": list(required)} if required else {})


def _part(**fields: Form) -> Form:
    """A part that is there as a whole: what is taken away with `null`, and may not be empty, is missed by its name."""
    return _object(fields, *(name for name, form in fields.items() if not form.get("pattern", "").startswith("^$|")))


def _by_key(value: Form, key: str = KEY) -> Form:
    return {"type": "object", "additionalProperties": False, "patternProperties": {key: value}}


def _whole(least: int, most: int) -> Form:
    return {"type": "integer", "minimum": least, "maximum": most}


_AMOUNT: Final[Form] = {"oneOf": [_text(QUANTITY), {"type": "integer", "minimum": 0}]}
_AMOUNTS: Final = _object({"cpu": _AMOUNT, "memory": _AMOUNT, "ephemeral-storage": _AMOUNT})
_LABELS: Final = _by_key(_text(LABEL, longest=63))
_ANNOTATIONS: Final = _by_key(_TEXT)
_MONITOR: Final = _part(enabled=_BOOL, interval=_text(MONITOR_INTERVAL), labels=_LABELS)

CHART: Final[dict[str, Form]] = {
    "nameOverride": _text(NAME, empty=True, longest=63),
    "fullnameOverride": _text(NAME, empty=True, longest=40),
    "image": _part(
        repository=_text(REPOSITORY),
        tag=_text(r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$", empty=True),
        digest=_text(r"^sha256:[0-9a-f]{64}$", empty=True),
        pullPolicy=_choice("Always", "IfNotPresent", "Never"),
    ),
    "imagePullSecrets": _list(_text(OBJECT)),
    "replicas": _whole(1, 5),
    "resources": _object({"requests": _AMOUNTS, "limits": _AMOUNTS}),
    "nodeSelector": _LABELS,
    "tolerations": _list(
        _object(
            {
                "key": _text(KEY, empty=True),
                "operator": _choice("Exists", "Equal"),
                "value": _text(LABEL, longest=63),
                "effect": _choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
                "tolerationSeconds": _whole(0, 2**31 - 1),
            }
        )
    ),
    "antiAffinity": _choice("required", "preferred", "none"),
    "spreadOverZones": _BOOL,
    "terminationGracePeriodSeconds": _whole(10, 600),
    "podAnnotations": _ANNOTATIONS,
    "podLabels": _LABELS,
    "env": _by_key(_TEXT, r"^[A-Za-z_][A-Za-z0-9_]*$"),
    "secretMounts": _list(_object({"secret": _text(OBJECT), "path": _text(FOLDER)}, "secret", "path")),
    "priorityClass": _part(create=_BOOL, name=_text(OBJECT, empty=True), value=_whole(-2147483648, 1_000_000_000)),
    "audit": _part(enabled=_BOOL),
    "certificates": _part(
        source=_choice("helm", "secret", "certManager", "none"),
        secretName=_text(OBJECT, empty=True),
        http=_BOOL,
        verifyClients=_BOOL,
        clientNames=_list(_text(r"^[!-~]+$")),
        helm=_part(validDays=_whole(1, 3650), renewAfterDays=_whole(0, 3650)),
        certManager=_part(
            issuer=_text(OBJECT, empty=True),
            issuerKind=_choice("ClusterIssuer", "Issuer"),
            duration=_text(DURATION),
            renewBefore=_text(DURATION),
        ),
    ),
    "keda": _part(namespace=_text(NAME, longest=63), clusterTriggerAuthentication=_BOOL),
    "serviceAccount": _part(create=_BOOL, name=_text(OBJECT, empty=True), annotations=_ANNOTATIONS),
    "rbac": _part(
        create=_BOOL,
        scaling=_BOOL,
        nodes=_BOOL,
        jobSets=_BOOL,
        trainJobs=_BOOL,
        trainingJobs=_BOOL,
        podNamespaces=_list(_text(NAME, longest=63)),
        readers=_list(_object({"namespace": _text(NAME, longest=63), "name": _text(OBJECT)}, "namespace", "name")),
    ),
    "crds": _part(install=_BOOL),
    "podDisruptionBudget": _part(enabled=_BOOL),
    "networkPolicy": _part(
        enabled=_BOOL,
        httpFrom=_list(_text(NAME, longest=63)),
        apiServerCidrs=_list(_text(CIDR)),
        apiServerPorts=_list(_PORT) | {"minItems": 1},
        callNamespaces=_list(_text(NAME, longest=63)),
        callCidrs=_list(_object({"cidr": _text(CIDR), "ports": _list(_PORT) | {"minItems": 1}}, "cidr", "ports")),
    ),
    "service": _part(annotations=_ANNOTATIONS),
    "kedaService": _part(annotations=_ANNOTATIONS),
    "monitoring": _part(
        serviceMonitor=_MONITOR,
        podMonitor=_MONITOR,
        rules=_part(enabled=_BOOL, labels=_LABELS, runbookBaseUrl=_text(r"^\S+$", longest=2048), disabled=_list(_TEXT)),
        dashboards=_part(enabled=_BOOL, labels=_LABELS),
    ),
}
"""Value of the chart's own -> its form."""


def settings_form(*also: str) -> Form:
    """The form of `settings`: the controller's model without what the chart decides, with `also` further keywords."""
    forms = schema_of(Settings)["$defs"]
    return _strict(forms["Settings"], forms, said_of(Settings), "", _KEPT | set(also))


def values_schema() -> Form:
    """The whole schema."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart headroom",
        **_part(**CHART, settings=settings_form()),
    }


def _strict(form: Form, forms: dict[str, Form], said: Said, path: str, keywords: frozenset[str]) -> Form:
    """`form` without references, titles and defaults; a map knows only the names that its pattern allows."""
    form = resolved(form, forms)
    kept = {key: form[key] for key in form if key in keywords}
    if "items" in form:
        kept |= {"items": _strict(form["items"], forms, said, f"{path}[]", keywords), "uniqueItems": True}
    if "patternProperties" in form:
        patterns = form["patternProperties"].items()
        kept |= {"additionalProperties": False}
        kept["patternProperties"] = {key: _strict(inner, forms, said, f"{path}.*", keywords) for key, inner in patterns}
    if "properties" in form:
        kept["additionalProperties"] = False
        kept["properties"] = {}
        for name, inner in form["properties"].items():
            below = f"{path}.{name}".lstrip(".")
            if below not in OF_THE_CHART:
                kept["properties"][name] = _strict(inner, forms, said, below, keywords)
                if words := said.get(below):
                    kept["properties"][name]["description"] = words
    return kept


_KEPT: Final = frozenset({
    "type", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
    "minItems", "maxItems", "required",
})  # fmt: skip
