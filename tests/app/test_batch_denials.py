"""Of which other gangs it is asked whether they could be stopped, where the stop of one is refused over and over."""

from autoscaler.app.batch_denials import MOST, TRY_S, Denials
from autoscaler.app.batch_rests import RETRY_MOST_S, RETRY_S, Rests
from autoscaler.app.batch_tally import Tally
from tests.app.batch_plant import BatchPlant


async def test_each_other_gang_is_asked_about_in_turn_however_often_the_first_one_is_refused_between() -> None:
    """Three others, asked about every 15 seconds, between which the stop is refused three times."""
    names = ("stays", "a", "b", "c")
    plant = BatchPlant({f"n{at}": 8 for at in range(4)})
    for name in names:
        plant.job(name)
    plant.look()
    assert sorted(plant.start()) == sorted(names)
    for name in names:
        (put,) = plant.work(name).put
        plant.pod(f"{name}-0", put.node, job=name)
    plant.look()
    runs = {name: run for name, run in plant.books.room.runs.all.items() if name != "job/ns/stays"}
    denials, asked = Denials(Rests(), Tally()), list[str]()
    for at in range(MOST):
        denials.denied("job/ns/stays", "never", RETRY_S * at)
    for at in range(3):
        now_s = RETRY_S * MOST + TRY_S * at
        asked += [work.ref.name for _, work in denials.due(plant.cluster.works, runs, now_s)]
        assert list(denials.due(plant.cluster.works, runs, now_s + TRY_S - 1.0)) == []
        for step in range(3):
            denials.denied("job/ns/stays", "never", now_s + RETRY_S * step)
    assert sorted(asked) == ["a", "b", "c"]


def test_a_gang_whose_start_is_refused_for_weeks_is_tried_every_ten_minutes_still() -> None:
    rests, now_s = Rests(), 0.0
    while now_s < 14 * 86_400.0:
        rests.begin("a", now_s)
        before_s, now_s = now_s, rests.all["a"].until_s
    assert rests.all["a"].times > 1024
    assert now_s - before_s == RETRY_MOST_S
