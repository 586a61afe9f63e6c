"""What fits what: whether a node can hold slots of a form, and how many.

Enters: a node as seen and a form of slot. Leaves: a word why it does not fit, and a count of slots. Physical GPUs are
counted once: a node's units are divided by its parts where the form is, and never twice.
"""

from autoscaler.core.pool.params import SlotForm
from autoscaler.core.pool.world import NodeSeen


def misfit(form: SlotForm, node: NodeSeen) -> str | None:
    """Why the node cannot hold such slots now although its GPUs are there; None where it can."""
    return strange(form, node) or lacking(form, node)


def strange(form: SlotForm, node: NodeSeen) -> str | None:
    """Why the node is not of the kind that holds such slots; None where it is, as far as it is known."""
    if node.labelled and node.sharing is not form.sharing:
        return f"its GPUs are {node.sharing.value}, the slots' are {form.sharing.value}"
    if node.labelled and node.parts != form.parts:
        return f"its GPUs are divided by {node.parts}, the slots' by {form.parts}"
    for what, has, least in (("driver", node.driver, form.min_driver), ("CUDA", node.cuda, form.min_cuda)):
        if least is not None and has is not None and has < least:
            return f"{what} {_dotted(has)} is older than {_dotted(least)}"
    return None


def lacking(form: SlotForm, node: NodeSeen) -> str | None:
    """What the node lacks that may come yet; None where it lacks nothing. Labels come up to a minute after the GPUs,
    and GPUs are gone for as long as a device plugin starts anew: the slots that hold them run on."""
    if not node.labelled:
        return "it does not tell how its GPUs are divided; run GPU feature discovery"
    for what, has, least in (("driver", node.driver, form.min_driver), ("CUDA", node.cuda, form.min_cuda)):
        if least is not None and has is None:
            return f"it does not tell its {what}, slots need {_dotted(least)}; run GPU feature discovery"
    if node.units is not None and node.units < form.count:
        return f"it has {node.units} of {form.resource}, a slot needs {form.count}"
    return None


def has_gpus(node: NodeSeen) -> bool:
    """Whether the node's GPUs are registered, validated where somebody validates, and nothing gates them."""
    return bool(node.units) and node.validated is not False and not node.gating_taints


def staying(form: SlotForm, node: NodeSeen) -> bool:
    """Whether nobody takes the node, and slots fit it as far as it is known."""
    return not node.interrupted and not node.cordoned and strange(form, node) is None


def works(form: SlotForm, node: NodeSeen) -> bool:
    """Whether the node takes and runs pods, and its GPUs are there and are known to be what slots need."""
    return node.ready and not node.disk_full and has_gpus(node) and lacking(form, node) is None


def short_of_gpus(node: NodeSeen) -> bool:
    """Whether it shows fewer units than its instance type promised."""
    return node.units is not None and node.expected_units is not None and node.units < node.expected_units


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
