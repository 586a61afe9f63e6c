"""One run from the question whether the service is there to the last tally.

Enters: what was asked. Leaves: a `Run` and its tally, whatever ended it: the schedule's end, too many errors, a signal.
"""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from autoscaler.errors import HeadroomError
from loadtests.traffic.crew import Crew, hired
from loadtests.traffic.live import View
from loadtests.traffic.report import Run
from loadtests.traffic.schedule import Schedule
from loadtests.traffic.stream import Asking
from loadtests.traffic.tally import Tally
from loadtests.traffic.target import Target
from loadtests.traffic.worker import Part

ANSWER_S = 5.0
ERRORS_OF = 50
"""Requests that must have ended before a share of errors ends the run."""

SHOWN_EVERY_S = 0.5


class ServiceError(HeadroomError):
    """The service cannot be asked; the message says what it did."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does."""

    command: str
    seed: int
    target: Target
    model: str | None
    """None asks the service, and takes the first of its models."""
    headers: dict[str, str]
    ignore_eos: bool
    schedule: Schedule
    workers: int
    timeout_s: float
    most_open: int
    stop_errors: float
    """Share of failed requests at which the run ends; above 1 it never does."""
    bases: tuple[str, ...] = ()
    """Replicas to spread the requests over in the target's place; who runs the load may change them."""
    log: Path | None = None
    """A folder that gets one file of each worker with a line for each request that ended; see `log.py`."""


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def _nothing(_: Crew) -> None:
    """What most do with a crew."""


async def execute(plan: Plan, view: View, hired_crew: Callable[[Crew], None] = _nothing) -> tuple[Run, Tally]:
    """Run it; `hired_crew` gets the crew before it starts. ServiceError where the service cannot be asked at all; what
    happens later is in the tally."""
    model = plan.model if plan.model is not None else await first_model(plan.target, plan.headers)
    ended = "done"

    def interrupted() -> None:
        nonlocal ended
        ended = "interrupted"
        crew.stop()

    async with hired(_parts(plan, model)) as crew:
        hired_crew(crew)
        with on_signal(interrupted):
            async with asyncio.TaskGroup() as group:
                running = group.create_task(crew.run())
                while not running.done():
                    await asyncio.wait({running}, timeout=SHOWN_EVERY_S)
                    tally = crew.tally
                    view.show(tally, asyncio.get_running_loop().time() - crew.start_s)
                    if ended == "done" and _too_many(tally, plan.stop_errors):
                        ended = "errors"
                        crew.stop()
        took_s = max(0.0, asyncio.get_running_loop().time() - crew.start_s)
        ended = "worker died" if crew.died else ended
        run = Run(
            plan.command, plan.seed, plan.target, model, plan.schedule, ended, took_s, tuple(crew.each_cpu_s)
        )  # fmt: skip
        return run, crew.tally


async def first_model(target: Target, headers: dict[str, str]) -> str:
    """The name of the service's first model."""
    naming = "; --model NAME starts without asking"
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers, trust_env=False) as session,
            session.get(target.models_url, allow_redirects=False) as answer,
        ):
            body = await answer.read()
    except TimeoutError as error:
        raise ServiceError(f"{target.models_url}: no answer within {ANSWER_S:g} s{naming}") from error
    except aiohttp.ClientConnectorError as error:
        raise ServiceError(f"{target.base}: cannot be reached ({error}); is the service up?") from error
    except aiohttp.ClientError as error:
        raise ServiceError(f"{target.models_url}: closed without an answer ({error}){naming}") from error
    if answer.status != 200:
        raise ServiceError(f"{target.models_url}: HTTP {answer.status}{naming}")
    try:
        models = msgspec.json.decode(body, type=_Models).data
    except msgspec.DecodeError as error:
        raise ServiceError(f"{target.models_url}: no list of models ({error}){naming}") from error
    if not models:
        raise ServiceError(f"{target.models_url}: lists no model{naming}")
    return models[0].id


def _parts(plan: Plan, model: str) -> Sequence[Part]:
    asking = Asking(plan.target, model, plan.headers, plan.ignore_eos, plan.bases)
    return [
        Part(
            asking, plan.schedule.share(number, plan.workers).packed(), (plan.seed, number), plan.timeout_s,
            max(1, plan.most_open // plan.workers), None if plan.log is None else str(plan.log / f"{number}.csv"),
        )
        for number in range(plan.workers)
    ]  # fmt: skip


def _too_many(tally: Tally, share: float) -> bool:
    return tally.completed + tally.failed >= ERRORS_OF and tally.error_ratio >= share


@contextmanager
def on_signal(call: Callable[[], None]) -> Iterator[None]:
    """Do it when the terminal or the system asks to end. Afterwards they do what they did before, which for SIGTERM may
    be more than the end of this process."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
