"""The run as a person watches it: a bar and figures on a terminal, a line now and then elsewhere."""

import io

from rich.console import Console

from loadtests.traffic.live import watching
from loadtests.traffic.tally import Reply, Second, Tally


def tally_at(second: int) -> Tally:
    """Ten requests are due and sent each second, and each is answered within it: a token after 0.2 s, the last of 41
    after 0.6 s."""
    tally = Tally()
    for number in range(10 * second):
        due_s = number / 10
        tally.due += 1
        tally.begin(0.001)
        reply = Reply(first_s=due_s + 0.2, last_s=due_s + 0.6, events=41)
        tally.end(reply, due_s, due_s + 0.6, tally.second(due_s))
    for each in tally.seconds.values():
        each.events = 410
    return tally


def test_a_terminal_shows_a_bar_the_counts_and_the_percentiles_so_far() -> None:
    shown = io.StringIO()
    with watching(Console(file=shown, force_terminal=True, width=100, height=30), 100) as view:
        view.show(tally_at(4), 4.2)
        text = shown.getvalue()
    assert "40/100" in text, "the bar counts requests that are due"
    assert "0 open, 40 completed, 0 failed, 410 events/s, first token p99 0.200 s" in text
    for row in ("first token", "each token after", "whole answer", "sent late (harness)"):
        assert row in text
    assert "0.010" in text, "seconds a token"
    assert "p99.9" in text


def test_what_is_no_terminal_gets_a_line_every_five_seconds() -> None:
    shown = io.StringIO()
    with watching(Console(file=shown, width=100), 200) as view:
        for half in range(2, 25):
            view.show(tally_at(half // 2), half / 2)
    assert shown.getvalue().splitlines() == [
        "5 s: 0 open, 50 completed, 0 failed, 410 events/s, first token p99 0.200 s",
        "10 s: 0 open, 100 completed, 0 failed, 410 events/s, first token p99 0.200 s",
    ]


def test_before_the_first_answer_no_percentile_is_made_up() -> None:
    shown = io.StringIO()
    tally = Tally(due=3, seconds={0: Second(due=3)})
    with watching(Console(file=shown, width=100), 200) as view:
        view.show(tally, 5.0)
    assert shown.getvalue() == "5 s: 0 open, 0 completed, 0 failed\n"
