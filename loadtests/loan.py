"""`loadtests loan`: a burst of inference recalls loans, the gangs checkpoint, the burst is served, a gang goes on.

Enters: how long the gangs take for their checkpoint. Leaves: what the page of a running controller showed at each of
the four moments, read in Chromium, when each came, and pictures of it; printed and as JSON. The API server, the
scheduler, the Job controller and the controller are the real ones; nodes, pods and how long they take are KWOK's, and
inputs, as is the pool's past. The burst is an order given by hand.
"""

import argparse
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from autoscaler.errors import InputError
from loadtests import recorded
from tests.cluster.batch_work import Desk
from tests.cluster.loan_scene import GRACE_S, NOTICE, Scene, lending_controller, lending_plane
from tests.real import parts
from tests.web.browser import NAMES
from tests.web.window import Window, window

VIEWS: Final = {"light": (1400, False), "dark": (1400, True), "narrow": (400, False)}
"""Of each moment's pictures: width of the window, and whether it is dark."""

GANGS: Final = ("train", "tune")
BURST: Final = 3
"""Replicas: one more than there are idle slots besides what is lent. The last one is ordered once that is back: had it
to wait, the scheduler might evict a pod of the gang by priority before the gang is stopped."""

POOL: Final = ".pool"
OWNERS: Final = "#batch .batch-owners"
GANG_ROWS: Final = "#batch .batch-gangs tbody tr"


@dataclass(frozen=True, slots=True)
class Moment:
    """What the page showed at one moment; seconds are since the burst was ordered."""

    name: str
    at_s: float
    owners: str
    """Units by who owns them."""
    pool: str
    """The card of the pool."""
    gang: str
    """The row of the gang."""


@dataclass(slots=True)
class Recorder:
    """Reads the page, and takes its picture where a folder was given."""

    page: Window
    gang: str
    shots: Path | None
    say: recorded.Say
    ordered_s: float | None = None
    """When the burst was ordered, by the monotonic clock."""
    found: list[Moment] = field(default_factory=list)

    def see(self, name: str, *, gpus: str, pool: str, gang: str) -> None:
        """Wait until the page says this of the GPUs, of the pool and of the gang, and keep what it shows."""
        said = {_text(OWNERS): gpus, _text(POOL): pool, self._row(): gang}
        self.page.wait(" && ".join(f"{where}.includes({json.dumps(words)})" for where, words in said.items()))
        at_s = 0.0 if self.ordered_s is None else time.monotonic() - self.ordered_s
        owners = self.page.text(OWNERS)
        row = str(self.page.ask(self._row()))
        self.found.append(Moment(name, round(at_s, 1), _flat(owners), _flat(self.page.text(POOL)), _flat(row)))
        self.say(f"{name}: after {at_s:.0f} s")
        for view, (width, dark) in VIEWS.items() if self.shots is not None else ():
            assert self.shots is not None
            self.page.shoot(
                self.shots / f"{len(self.found)}-{name.replace(' ', '-')}-{view}.png", width=width, dark=dark
            )

    def _row(self) -> str:
        rows = f"[...document.querySelectorAll({json.dumps(GANG_ROWS)})]"
        return f"({rows}.find((row) => row.innerText.includes({json.dumps(self.gang)}))?.innerText ?? '')"


def record(folder: Path, checkpoint_s: float, say: recorded.Say, shots: Path | None = None) -> tuple[Moment, ...]:
    """Run it in `folder`; AssertionError with what was waited for where something does not come about."""
    say("starting the control plane, the controller and the browser")
    with (
        lending_plane(folder) as plane,
        lending_controller(plane) as controller,
        Desk.open(plane, controller) as desk,
        window(folder / "profile", controller.url) as page,
    ):
        found = play(Scene(desk, controller), page, checkpoint_s, say, shots)
        if page.complaints:
            raise AssertionError(f"the page complained: {'; '.join(page.complaints[:3])}")
        return found


def play(
    scene: Scene, page: Window, checkpoint_s: float, say: recorded.Say, shots: Path | None = None
) -> tuple[Moment, ...]:
    """The four moments of a scene in which nothing is lent yet, as the first of two gangs comes through them."""
    gang = f"job/{scene.space}/{GANGS[0]}"
    seen = Recorder(page, gang, shots, say)
    for name in GANGS:
        scene.train(name, ends_after_s=checkpoint_s)
    scene.wait_lent(*GANGS)
    seen.see("lent", gpus="16 lent to batch", pool=f"8 units lent to {gang}", gang="running")
    scene.checkpoint(GANGS[0])  # it has the least to lose from then on
    seen.ordered_s = time.monotonic()
    scene.scale(BURST - 1)
    seen.see(
        "called back", gpus="16 serving", pool=f"8 units called back from {gang}",
        gang="leaves: serving takes its GPUs back",
    )  # fmt: skip
    scene.checkpoint(GANGS[0])
    scene.wait(lambda: scene.warm() == 1, "the slot to be back where the gang was")
    scene.scale(BURST)
    scene.wait(lambda: scene.running() == BURST, "the burst's last replica where the gang was")
    seen.see("served", gpus="24 serving", pool="Lent\n0", gang="waiting")
    scene.scale(0)
    scene.wait_lent(GANGS[0])
    seen.see("resumed", gpus="8 lent to batch", pool=f"8 units lent to {gang}", gang="running")
    return tuple(seen.found)


def lines(found: tuple[Moment, ...]) -> Iterator[str]:
    """A record for people."""
    for moment in found:
        yield f"{moment.name}, {moment.at_s:.0f} s after the burst was ordered"
        yield from (f"  {what}: {said}" for what, said in (("GPUs", moment.owners), ("pool", moment.pool)))
        yield f"  gang: {moment.gang}"


def main(arguments: list[str]) -> int:
    """Run, print, write; 0 where all four moments came, 1 where not, 2 for unusable arguments."""
    parser = recorded.parser("loan", __doc__)
    parser.add_argument(
        "--checkpoint", type=float, default=8.0, metavar="S",
        help=f"seconds that a gang takes for its checkpoint (1..{GRACE_S - 2}), by default 8",
    )  # fmt: skip
    parser.add_argument("--shots", type=Path, metavar="FOLDER", help="an empty folder for pictures of the page")
    given = parser.parse_args(arguments)
    run = lambda folder, say: record(folder, given.checkpoint, say, given.shots)  # noqa: E731 - one expression, named
    found = recorded.recorded("loan", lambda: _check(given), run)
    if isinstance(found, int):
        return found
    print("\n".join(lines(found)))
    inputs = {"checkpoint_s": given.checkpoint, "grace_s": GRACE_S, **NOTICE}
    told = {"inputs": inputs, "moments": [asdict(moment) for moment in found]}
    recorded.keep(given.json, "loan", arguments, told)
    return 0


def _check(given: argparse.Namespace) -> None:
    """InputError where it cannot be run as it is asked for."""
    if not 1.0 <= given.checkpoint <= GRACE_S - 2:
        raise InputError(f"--checkpoint: {given.checkpoint:g} is out of range; it must be 1..{GRACE_S - 2}")
    if given.shots is not None and (not given.shots.is_dir() or any(given.shots.iterdir())):
        raise InputError(f"--shots: {given.shots} is no empty folder; make one")
    recorded.check(given, parts.CONTROL_PLANE)
    if not any(map(shutil.which, NAMES)):
        raise InputError(f"no browser on PATH: none of {', '.join(NAMES)}")


def _text(selector: str) -> str:
    return f"(document.querySelector({json.dumps(selector)})?.innerText ?? '')"


def _flat(text: str) -> str:
    return " ".join(text.split())
