"""The policy that a workload carries as annotations.

Enters: the annotations of an object. Leaves: a policy without target (it is the object itself), None where nobody
asked for scaling, or an InputError naming annotation, value and legal range. The annotations are `flat`'s keys in
kebab-case, after our own prefix.
"""

from collections.abc import Mapping
from typing import Final

from autoscaler.api.faults import shown
from autoscaler.api.flat import Form, read_flat
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.api.schema import Spelling
from autoscaler.errors import InputError

PREFIX: Final = "headroom.dev/"
SCALE: Final = PREFIX + "scale"

_FORM: Final = Form("annotation", PREFIX, Spelling.KEBAB)


def read_annotations(annotations: Mapping[str, str]) -> ScalingPolicySpec | None:
    """The policy in an object's annotations; None without ``headroom.dev/scale: "true"``.

    Raises InputError for the first fault, unknown annotations of ours among them.
    """
    scale = annotations.get(SCALE, "false")
    if scale not in {"true", "false"}:
        raise InputError(f'{SCALE}: {shown(scale)} is neither; it must be "true" or "false"')
    if scale == "false":
        return None
    ours = {key: text for key, text in annotations.items() if key.startswith(PREFIX) and key != SCALE}
    return read_flat({key.removeprefix(PREFIX): text for key, text in ours.items()}, _FORM)
