"""A past that is fetched in parts: none is lost in silence, none is asked for twice."""

import asyncio
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web

from autoscaler.adapters.prometheus.answers import Trouble
from autoscaler.adapters.prometheus.chunks import Chunks
from autoscaler.adapters.prometheus.patience import Patience
from autoscaler.adapters.prometheus.questions import Question
from autoscaler.errors import InputError
from autoscaler.ports import Fault, PortError
from tests.prometheus.past import FakePast, Form, archive, error, instants, matrix, past

START_S = 1_700_000_010
STEP_S = 30


def question(points: int = 25_000, name: str = "load") -> Question:
    """Asked 45 s after each step's beginning."""
    return Question(name, f"{name}(x)", START_S, START_S + 45, STEP_S, points)


def rising(t_s: np.ndarray) -> list[tuple[dict[str, str], np.ndarray]]:
    return [({"s": "t"}, t_s - START_S - 45.0), ({"s": "half"}, np.where(t_s % 60 == 15, 1.0, np.nan))]


def silent(_done: int, _parts: int) -> None:
    """Nobody watches."""


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.past"))


async def fetched(fake: FakePast, folder: Path, *asked: Question, **how):
    async with archive(fake.url, folder, **how) as one:
        await one.fetch(asked, silent)
        return [one.past(each) for each in asked], one


async def test_a_long_range_is_asked_in_equal_parts_and_put_together_again(tmp_path: Path) -> None:
    async with past() as fake:
        fake.ranges["load"] = rising
        ((found,), _) = await fetched(fake, tmp_path, question())
    assert len(fake.asked) == 3
    assert max(instants(form).size for form in fake.asked) <= 11_000
    assert fake.asked_points() == list(range(START_S + 45, START_S + 45 + 25_000 * STEP_S, STEP_S))
    by_name = {labels["s"]: row for labels, row in zip(found.labels, found.values, strict=True)}
    assert (by_name["t"] == STEP_S * np.arange(25_000)).all()
    assert np.isnan(by_name["half"]).sum() == 12_500
    assert found.losses == ()


async def test_a_second_run_asks_for_nothing_it_has(tmp_path: Path) -> None:
    async with past() as fake:
        fake.ranges["load"] = rising
        ((first,), _) = await fetched(fake, tmp_path, question())
        fake.asked.clear()
        ((second,), run) = await fetched(fake, tmp_path, question())
        assert fake.asked == []
        assert run.kept == 3
        assert (first.values == second.values)[~np.isnan(first.values)].all()
        other = await fetched(fake, tmp_path, question(name="overload"))
        assert len(fake.asked) == 3, "what another question was answered is no answer to this one"
        assert other[1].kept == 0


@pytest.mark.parametrize("harm", ["cut", "flipped", "relabelled", "another's", "empty"])
async def test_a_part_on_disk_that_is_not_whole_is_asked_for_again(tmp_path: Path, harm: str) -> None:
    async with past() as fake:
        fake.ranges["load"] = rising
        await fetched(fake, tmp_path, question())
        first, second, _ = parts(tmp_path)
        text = first.read_bytes()
        harmed = {
            "cut": text[:-10], "flipped": text[:-1] + b"\0", "another's": second.read_bytes(), "empty": b"",
            "relabelled": text.replace(b'"s":"t"', b'"s":"x"'),
        }  # fmt: skip
        first.write_bytes(harmed[harm])
        fake.asked.clear()
        ((found,), run) = await fetched(fake, tmp_path, question())
    assert (len(fake.asked), run.kept) == (1, 2)
    assert found.losses == ()
    assert (found.values[0] == STEP_S * np.arange(25_000)).all()


async def test_a_query_over_too_many_samples_is_asked_over_less_time(tmp_path: Path) -> None:
    def at_most_3000(form: Form) -> web.Response | None:
        too_many = instants(form).size > 3000
        return error(422, "query processing would load too many samples into memory") if too_many else None

    async with past() as fake:
        fake.ranges["load"], fake.fault = rising, at_most_3000
        ((found,), _) = await fetched(fake, tmp_path, question())
        refused = sum(instants(form).size > 3000 for form in fake.asked)
        assert refused == 3 * (1 + 2), "each third, and its halves"
        assert (found.values[0] == STEP_S * np.arange(25_000)).all()
        assert found.losses == ()
        fake.asked.clear()
        ((again,), _) = await fetched(fake, tmp_path, question())
    assert (again.values[0] == found.values[0]).all()
    assert fake.asked == [], "not even whether it is still too much"


async def test_what_even_a_short_part_is_too_much_for_is_a_loss_that_says_what_to_do(tmp_path: Path) -> None:
    day = START_S + 45 + 2880 * STEP_S

    def busy_day(form: Form) -> web.Response | None:
        return error(422, "too many samples") if int(form["start"]) < day else None

    async with past() as fake:
        fake.ranges["load"], fake.fault = rising, busy_day
        ((found,), _) = await fetched(fake, tmp_path, question(5760))
    assert {loss.trouble for loss in found.losses} == {Trouble.TOO_MANY}
    assert found.losses[0].from_s == START_S
    assert max(loss.until_s for loss in found.losses) == START_S + 2880 * STEP_S
    assert sum(loss.until_s - loss.from_s for loss in found.losses) == 2880 * STEP_S
    assert "--query.max-samples" in found.losses[0].text
    assert np.isnan(found.values[0]).sum() == 2880


FAILING = {
    "a server error": (lambda: error(500, "oops"), Trouble.UNREACHABLE, 3 * 2),
    "a part of the answer": (lambda: matrix(warnings=["store 3 is down"]), Trouble.PARTIAL, 3 * 2),
    "the same series twice": (lambda: matrix(({"s": "t"}, []), ({"s": "t"}, [])), Trouble.AMBIGUOUS, 1),
    "a page": (lambda: web.Response(text="<html>log in</html>", content_type="text/html"), Trouble.REFUSED, 1),
    "half a text": (lambda: web.Response(text='{"status":"succ'), Trouble.UNREACHABLE, 3 * 2),
    "other instants": (lambda: matrix(({"s": "t"}, [[START_S + 46, "1"]])), Trouble.REFUSED, 1),
    "an instant before": (lambda: matrix(({"s": "t"}, [[START_S + 15, "1"]])), Trouble.REFUSED, 1),
    "an instant after": (lambda: matrix(({"s": "t"}, [[START_S + 45 + 30 * 11_000, "1"]])), Trouble.REFUSED, 1),
    "a thousand series": (
        lambda: matrix(*(({"s": str(n)}, []) for n in range(2001))), Trouble.TOO_MANY, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "trouble", "times"), FAILING.values(), ids=FAILING.keys())
async def test_a_part_that_is_not_answered_is_a_loss_with_its_times(
    tmp_path: Path, answer, trouble: Trouble, times: int
) -> None:
    async with past() as fake:
        fake.ranges["load"] = rising
        fake.fault = lambda form: answer() if int(form["start"]) == START_S + 45 else None
        ((found,), _) = await fetched(fake, tmp_path, question(22_000))
        assert Counter(form["start"] for form in fake.asked)[str(START_S + 45)] == times
    (loss,) = found.losses
    assert (loss.from_s, loss.until_s, loss.trouble) == (START_S, START_S + 11_000 * STEP_S, trouble)
    assert np.isnan(found.values[0][:11_000]).all()
    assert not np.isnan(found.values[0][11_000:]).any()


async def test_a_lost_part_is_asked_for_again_by_the_next_run(tmp_path: Path) -> None:
    async with past() as fake:
        fake.ranges["load"] = rising
        fake.fault = lambda form: error(500, "oops") if int(form["start"]) == START_S + 45 else None
        await fetched(fake, tmp_path, question(22_000))
        fake.fault = lambda _form: None
        fake.asked.clear()
        ((found,), _) = await fetched(fake, tmp_path, question(22_000))
    assert (len(fake.asked), found.losses) == (1, ())


async def test_a_restart_in_the_middle_leaves_no_hole(tmp_path: Path) -> None:
    failures = iter(range(4))

    async with past() as fake:
        fake.ranges["load"] = rising
        fake.fault = lambda _form: None if next(failures, None) is None else error(503, "starting up")
        ((found,), _) = await fetched(fake, tmp_path, question(22_000), patience=Patience(2, 0.01, 0.01, 60.0))
    assert found.losses == ()


async def test_it_waits_as_long_as_it_is_asked_to(tmp_path: Path) -> None:
    first = iter([True])
    loop = asyncio.get_running_loop()
    async with past() as fake:
        fake.ranges["load"] = rising
        fake.fault = lambda _form: error(429, "busy", **{"Retry-After": "1"}) if next(first, False) else None
        begun_s = loop.time()
        ((found,), _) = await fetched(fake, tmp_path, question(100), patience=Patience(2, 0.01, 5.0, 60.0))
        assert loop.time() - begun_s >= 1.0
    assert found.losses == ()


async def test_a_query_that_is_too_slow_is_asked_over_less_time(tmp_path: Path) -> None:
    async def late() -> web.StreamResponse:
        await asyncio.sleep(3)
        return web.Response()

    async with past() as fake:
        fake.ranges["load"] = rising
        fake.fault = lambda form: late() if instants(form).size > 300 else None
        ((_, found), _) = await fetched(fake, tmp_path, question(100, "load-short"), question(600), timeout_s=1.0)
    assert found.losses == ()
    assert (found.values[0] == STEP_S * np.arange(600)).all()
    assert len(fake.asked) == 1 + 3


async def test_whoever_may_not_ask_is_told_at_once(tmp_path: Path) -> None:
    async with past() as fake:
        fake.fault = lambda _form: error(403, "forbidden")
        with pytest.raises(PortError, match="403") as raised:
            await fetched(fake, tmp_path, *(question(name=f"q{n}") for n in range(20)))
    assert raised.value.fault is Fault.DENIED
    assert len(fake.asked) <= 2


async def test_a_server_that_is_gone_ends_the_run_and_what_was_read_is_kept(tmp_path: Path) -> None:
    answered = iter(range(10))
    asked = [question(100, f"load-{n:02}") for n in range(30)]
    impatient = Patience(50, 0.01, 0.05, gone_s=0.3)
    async with past() as fake:
        fake.ranges["load"] = rising
        fake.fault = lambda _form: None if next(answered, None) is not None else error(502, "bad gateway")
        with pytest.raises(PortError, match="the same command goes on from there"):
            await fetched(fake, tmp_path, *asked, patience=impatient)
        assert len(parts(tmp_path)) == 10
        fake.asked.clear()
        fake.fault = lambda _form: None
        found, run = await fetched(fake, tmp_path, *asked)
    assert (len({form["query"] for form in fake.asked}), run.kept) == (20, 10)
    assert all(one.losses == () for one in found)


async def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    async with past() as fake, archive(fake.url, tmp_path) as one:
        fake.ranges["load"] = rising
        await one.fetch([question()], lambda done, parts: told.append((done, parts)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


async def test_bounds_of_a_histogram_may_come_and_go(tmp_path: Path) -> None:
    def by_part(t_s: np.ndarray) -> list[tuple[dict[str, str], np.ndarray]]:
        late = t_s[0] > START_S + 45
        return [({"s": "new" if late else "old"}, np.ones(t_s.size))]

    async with past() as fake:
        fake.ranges["load"] = by_part
        ((found,), _) = await fetched(fake, tmp_path, question(22_000))
    assert [labels["s"] for labels in found.labels] == ["old", "new"]
    assert np.isnan(found.values).sum(axis=1).tolist() == [11_000, 11_000]


async def test_parts_of_a_window_that_is_over_are_not_kept_for_ever(tmp_path: Path) -> None:
    async with past() as fake:
        fake.ranges["load"] = rising
        await fetched(fake, tmp_path, question(name="load-old"))
        (tmp_path / ".new-torn").write_bytes(b"half")
        (tmp_path / "window.json").write_bytes(b"{}")
        _, run = await fetched(fake, tmp_path, question(name="load-new"))
        assert len(parts(tmp_path)) == 6
        run.chunks.forget_others()
        assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".past", ".past", ".past"]  # noqa: ASYNC240
        fake.asked.clear()
        await fetched(fake, tmp_path, question(name="load-new"))
    assert fake.asked == []


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        Chunks(tmp_path / "file" / "parts")
