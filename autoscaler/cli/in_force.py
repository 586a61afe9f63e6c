"""The settings by which `headroom doctor` examines an installation: those that it runs with, wherever they stand.

Enters: how the cluster is reached. Leaves: settings, whether the chart gave them, and a finding where there is
something to tell of them.
"""

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.cli.checks import Finding, State
from autoscaler.cli.installed import UnknownSettingsError, installed
from autoscaler.cli.leader import Reach
from autoscaler.errors import InputError
from autoscaler.settings.load import named_file
from autoscaler.settings.model import Settings


async def in_force(api: KubeApi, reach: Reach, usual: Settings) -> tuple[Settings, bool, list[Finding]]:
    """The settings by which a cluster is examined, whether they are the chart's, and what is to be told of them.

    Those of a file that is given; else those that the chart installed; else the `usual` ones.
    """
    if reach.config is not None or named_file() is not None:
        return usual, False, []
    where = f"kubectl -n {usual.namespace} get configmap NAME -o jsonpath='{{.data.settings\\.yaml}}' > settings.yaml"
    try:
        found = await installed(api, usual.namespace)
        if found is None:
            return usual, False, []
        source = f"ConfigMap {usual.namespace}/{found.name}"
        return reach.settings((source, found.text)), True, [Finding("settings", State.OK, f"those of {source}")]
    except (UnknownSettingsError, InputError) as error:
        words = f"the usual ones are taken for the installation's, which cannot be told: {error}"
        return usual, False, [Finding("settings", State.WARN, words, f"give its own by --config: {where}")]
