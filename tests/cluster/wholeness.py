"""How long pods of gangs hold GPUs while their gang is not whole, by the API server's own clock.

Enters: the audit log of a control plane, and how many pods of how many GPUs each gang has. Leaves: GPU-seconds held,
those of them held in part, and the longest time that a gang was in part on nodes. A pod holds its GPUs from its binding
until it ends or is told to go. Pods that ended well count as there: a gang that ends is not one that lacks somebody.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from tests.cluster.batch_work import instant_s


class Way(Enum):
    """What became of a pod."""

    BOUND = ("create", "pods/binding")
    ENDED = ("patch", "pods/status")
    """Well, as the suite itself says of it."""
    GONE = ("delete", "pods")
    """It was told to go."""


WAYS: Final[Mapping[tuple[str, str], Way]] = {way.value: way for way in Way}


@dataclass(frozen=True, slots=True)
class Turn:
    """An instant in the life of a pod of a gang."""

    at_s: float
    gang: str
    pod: str
    way: Way


@dataclass(frozen=True, slots=True)
class Held:
    """What gangs held in all."""

    gpu_s: float
    partial_gpu_s: float
    longest_s: float
    """The longest time that a gang was in part on nodes."""
    starts: int
    """How often a gang became whole."""

    @property
    def partial_ratio(self) -> float:
        """Of the GPU-seconds, 0 to 1."""
        return self.partial_gpu_s / self.gpu_s


def held(turns: Iterable[Turn], sizes: Mapping[str, tuple[int, int]]) -> Held:
    """What gangs held between their first and their last turn; `sizes` are pods and GPUs of each pod."""
    by_gang: dict[str, list[Turn]] = defaultdict(list)
    for turn in sorted(turns, key=lambda turn: turn.at_s):
        by_gang[turn.gang].append(turn)
    every = [_one(mine, *sizes[gang]) for gang, mine in by_gang.items()]
    return Held(
        sum(each.gpu_s for each in every), sum(each.partial_gpu_s for each in every),
        max(each.longest_s for each in every), sum(each.starts for each in every),
    )  # fmt: skip


def _one(turns: list[Turn], pods: int, gpus: int) -> Held:
    """What one gang held, by its turns in their order."""
    there, holding = set[str](), set[str]()
    gpu_s = partial_gpu_s = longest_s = 0.0
    starts, last_s = 0, turns[0].at_s
    in_part_since_s: float | None = None
    for turn in turns:
        spent_gpu_s = len(holding) * gpus * (turn.at_s - last_s)
        gpu_s, last_s = gpu_s + spent_gpu_s, turn.at_s
        if in_part_since_s is not None:
            partial_gpu_s, longest_s = partial_gpu_s + spent_gpu_s, max(longest_s, turn.at_s - in_part_since_s)
        if turn.way is Way.BOUND:
            there.add(turn.pod)
            holding.add(turn.pod)
            starts += len(there) == pods
        else:
            holding.discard(turn.pod)
            if turn.way is Way.GONE:
                there.discard(turn.pod)
        if not holding or len(there) == pods:
            in_part_since_s = None
        elif in_part_since_s is None:
            in_part_since_s = turn.at_s
    return Held(gpu_s, partial_gpu_s, longest_s, starts)


def turns(entries: Iterable[dict[str, Any]], namespaces: Iterable[str]) -> Iterator[Turn]:
    """What an audit log tells of the pods of Jobs in these namespaces; a gang is called NAMESPACE/JOB."""
    among = frozenset(namespaces)
    for entry in entries:
        ref = entry.get("objectRef", {})
        what = "/".join(filter(None, (ref.get("resource"), ref.get("subresource"))))
        way = WAYS.get((entry["verb"], what))
        if way is None or ref.get("namespace") not in among or entry["responseStatus"]["code"] >= 300:
            continue
        if way is Way.ENDED and not entry["userAgent"].startswith("Python-urllib"):
            continue  # the kubelets' own words of a pod that runs
        pod = f"{ref['namespace']}/{ref['name']}"
        yield Turn(instant_s(entry["stageTimestamp"]), pod.rpartition("-")[0], pod, way)
