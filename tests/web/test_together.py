"""A crowd that asks for the same at once is served by two makings, and nobody with what was true before."""

import asyncio

import pytest

from autoscaler.adapters.web.together import Together

pytestmark = pytest.mark.looptime(noop_cycles=1)


class Maker:
    """Takes a second for each, and makes the instant at which it began; one that is told to fails."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.at_once = self.most = 0
        self.fails = False

    async def make(self) -> float:
        began_s = asyncio.get_running_loop().time()
        self.begun.append(began_s)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(1.0)
        self.at_once -= 1
        if self.fails:
            raise ValueError("it failed")
        return began_s


async def test_a_hundred_that_come_while_one_is_made_share_the_next() -> None:
    maker, together = Maker(), Together[float]()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(together.get("text", maker.make))
        await asyncio.sleep(0.5)
        crowd = [group.create_task(together.get("text", maker.make)) for _ in range(100)]
    assert maker.begun == [0.0, 1.0]
    assert first.result() == 0.0
    assert {each.result() for each in crowd} == {1.0}, "begun after they came, not the one that was under way"


async def test_who_comes_later_has_one_made_anew() -> None:
    maker, together = Maker(), Together[float]()
    await together.get("text", maker.make)
    await asyncio.sleep(0.1)
    assert await together.get("text", maker.make) == pytest.approx(1.1)


async def test_others_wait_for_their_own_and_only_one_is_made_at_a_time() -> None:
    maker, together = Maker(), Together[float]()
    async with asyncio.TaskGroup() as group:
        for key in ("text", "zipped", "text", "zipped"):
            group.create_task(together.get(key, maker.make))
    assert maker.most == 1


async def test_one_that_fails_or_is_given_up_leaves_the_others_their_own() -> None:
    maker, together = Maker(), Together[float]()
    maker.fails = True
    with pytest.raises(ValueError, match="it failed"):
        await together.get("text", maker.make)
    maker.fails = False
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await together.get("text", maker.make)
    assert await together.get("text", maker.make) == 1.5
