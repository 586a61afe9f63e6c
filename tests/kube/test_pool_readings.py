"""A reading is kept while all that it was made from is the same object, and forgotten with its own."""

from autoscaler.adapters.kube.pool_readings import Readings


class Made:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        return self.times


def test_nothing_is_read_twice_until_something_it_rests_on_is_another_object() -> None:
    readings, made, node, claim = Readings(), Made(), object(), object()
    assert [readings.of("n0", "chat", (node, claim), made) for _ in range(3)] == [1, 1, 1]
    assert readings.of("n0", "chat", (node, object()), made) == 2
    assert readings.of("n0", "chat", (node, None), made) == 3
    assert readings.of("n0", "chat", (node, None), made) == 3


def test_pools_read_for_themselves_and_what_is_gone_is_forgotten() -> None:
    readings, made, node = Readings(), Made(), object()
    assert [readings.of("n0", pool, (node,), made) for pool in ("chat", "code", "chat")] == [1, 2, 1]
    readings.forget("n0")
    readings.forget("never there")
    assert readings.of("n0", "chat", (node,), made) == 3
