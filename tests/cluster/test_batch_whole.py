"""How long gangs hold GPUs in part: by hand, and of many gangs on a real control plane. Eight nodes of eight GPUs."""

from collections.abc import Iterator

import pytest

from tests.cluster import crowd
from tests.cluster.batch_work import SETTINGS, SLACK_S, Desk
from tests.cluster.controller import Controller
from tests.cluster.gangs import admitting_plane
from tests.cluster.wholeness import Turn, Way, held

BOUND_S = 30.0
"""After which a gang that is not bound whole is stopped whole: autoscaler/app/batch_patience.py."""

RUN_S = 5.0


def life(gang: str, **pods: tuple[tuple[float, Way], ...]) -> list[Turn]:
    return [Turn(at_s, gang, pod, way) for pod, ways in pods.items() for at_s, way in ways]


def test_what_is_held_in_part_is_what_first_pods_hold_until_the_last_one_comes() -> None:
    """Two pods of 4 GPUs: bound at 0 and 1, ended at 100 and 110. 8 x 99 + 4 x 1 + 4 x 10 GPU-seconds, 4 in part."""
    found = held(life("g", a=((0, Way.BOUND), (100, Way.ENDED)), b=((1, Way.BOUND), (110, Way.ENDED))), {"g": (2, 4)})
    assert (found.gpu_s, found.partial_gpu_s, found.longest_s, found.starts) == (4 + 8 * 99 + 4 * 10, 4, 1, 1)
    assert found.partial_ratio == pytest.approx(4 / 836)


def test_what_is_stopped_pod_by_pod_is_held_in_part_until_the_last_one_is_told() -> None:
    """Bound at 0, told to go at 10, 10 and 13, and whole once more from 20 to 30: 3 s of one pod in part."""
    turns = life("g", a=((0, Way.BOUND), (10, Way.GONE)), b=((0, Way.BOUND), (10, Way.GONE)))
    turns += life("g", c=((0, Way.BOUND), (13, Way.GONE)))
    turns += life("g", **dict.fromkeys("def", ((20.0, Way.BOUND), (30.0, Way.ENDED))))
    found = held(turns, {"g": (3, 2)})
    assert (found.gpu_s, found.partial_gpu_s, found.longest_s, found.starts) == (60 + 6 + 60, 6, 3, 2)


def test_one_that_never_becomes_whole_is_in_part_all_the_while() -> None:
    turns = life("g", a=((0, Way.BOUND), (31, Way.GONE))) + life("h", b=((0, Way.BOUND), (31, Way.ENDED)))
    found = held(turns, {"g": (2, 8), "h": (1, 8)})
    assert (found.partial_ratio, found.longest_s, found.starts) == (0.5, 31, 1)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with (
        admitting_plane(tmp_path_factory.mktemp("whole"), "batch", nodes=8) as plane,
        Controller(plane, **SETTINGS) as controller,
    ):
        controller.wait_leading(SLACK_S)
        with Desk.open(plane, controller) as made:
            yield made


@pytest.mark.real
@pytest.mark.needs("control-plane")
@pytest.mark.timeout(300)
def test_no_gang_of_a_crowd_holds_gpus_in_part_for_longer_than_the_bound(desk: Desk) -> None:
    """Twelve gangs fill the nodes, twelve more of a queue with a guarantee come and have some of them stopped."""
    found = crowd.run(desk, crowd.drawn(24, seed=1), guaranteed=64, run_s=RUN_S, within_s=240.0)
    print(f"\n{found}, {100 * found.partial_ratio:.2f} % in part")
    assert found.starts > 24, "some were stopped whole and started again"
    assert found.longest_s <= BOUND_S
    assert found.partial_ratio <= 0.01 * 60.0 / RUN_S, "a start costs the same however long they run: 1 % of a minute"
