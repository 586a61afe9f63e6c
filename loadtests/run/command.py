"""`loadtests run SCENARIO` and `loadtests compare SCENARIO`: a scenario on a real control plane, judged.

Enters: a scenario file. Leaves: a summary on standard output, an HTML report, JSON where asked for, and an exit code:
0 the run came to its end, 1 it was ended by errors or something did not start, 2 a scenario or arguments that cannot be
used, 130 interrupted; what was measured until then is told in each case.
"""

import argparse
import json
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from autoscaler.errors import HeadroomError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadtests.run.document import Document
    from loadtests.run.fidelity import Middle
    from loadtests.run.scenario import Scaling, Scenario

MOST_TIMES = 9
CODES = "exit codes: 0 done; 1 ended by errors; 2 unusable arguments; 130 interrupted"
ABOUT = {
    "run": "A scenario on a real control plane: API server, scheduler, controller-manager and the controller, with "
    "fake nodes, and servers that behave like engines behind the pods. Control loop, not GPU.",
    "compare": "A scenario on a real control plane once for each way of scaling, with the same requests: Headroom, and "
    "KEDA and HPA on the number of requests that wait, at their defaults. Control loop, not GPU.",
}


def main(arguments: list[str], *, name: str = "run") -> int:
    """Run the scenario; see the module for the exit codes."""
    given = _parser(name).parse_args(arguments)
    try:
        return _run(given, name, shlex.join(["python3", "dev.py", "loadtests", name, *arguments]))
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        print("interrupted while no requests were sent", file=sys.stderr)
        return 130


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"loadtests {name}", allow_abbrev=False, description=ABOUT[name], epilog=CODES
    )  # fmt: skip
    add = parser.add_argument
    add("scenario", type=Path, metavar="SCENARIO", help="a YAML file, e.g. loadtests/scenarios/doubling.yaml")
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    add("--html", type=Path, metavar="FILE", help="write the report there (default: SCENARIO's name.html, here)")
    if name == "run":
        add("--times", type=int, default=1, metavar="N", help=f"so many runs one after the other, up to {MOST_TIMES}, "
            "and the middle of each figure beside the prediction, which is one too (default: 1)")  # fmt: skip
        add("--predict-only", action="store_true", help="only what the simulator says; starts nothing")
        add("--turns", metavar="SECONDS[,...]", help="with --predict-only: how long after each second the pages of the "
            "first pods are read, as `turn_s` of a run's pods in its JSON; without, it is chance")  # fmt: skip
        add("--began", metavar="SECONDS", help="with --predict-only: how long after a whole ten seconds of the "
            "controller's clock the load begins, as `began_s` in a run's JSON; without, it is chance")  # fmt: skip
    return parser


def _run(given: argparse.Namespace, name: str, command: str) -> int:
    from autoscaler.cli.output import check_writable  # noqa: PLC0415 - not needed for --help
    from loadtests.run.document import advised, reread  # noqa: PLC0415 - the same
    from loadtests.run.reading import read_scenario  # noqa: PLC0415 - the same
    from loadtests.run.scenario import Scaling  # noqa: PLC0415 - the same
    from loadtests.run.standing import check_parts  # noqa: PLC0415 - the same
    from loadtests.run.words import lines  # noqa: PLC0415 - the same

    path: Path = given.scenario
    scenario = read_scenario(path)
    times = 1
    if name == "run":
        _check_run(given)
        if given.predict_only:
            return _predict(scenario, path, given, command)
        times = given.times
    html = given.html if given.html is not None else Path(f"{path.stem}.html")
    check_writable([file for file in (given.json, html) if file is not None])
    ways = [scenario.scaling] * times if name == "run" else [Scaling.DIRECT, Scaling.KEDA_QUEUE]
    check_parts(ways, scenario.engine.make)
    found: list[Document] = []
    try:
        for number, way in enumerate(ways, start=1):
            before = found[-1] if found else None
            nth = number if times > 1 else 0
            found.append(_document(scenario, way, path, command, number=nth, before=before))
            found[-1] = reread(found[-1], path.parent)
            found[-1] = advised(found[-1], path.parent)
            for line in lines(found[-1]):
                print(line, flush=True)
            if found[-1].cut:
                break
        for line in _middle_lines(found):
            print(line, flush=True)
    finally:  # a way that does not come up, or an interruption, takes nothing from what was measured
        if found:
            _write(found, command, html, given.json)
            print(f"wrote {html}" + ("" if given.json is None else f" and {given.json}"))
    if found[-1].course.run.ended == "interrupted":
        return 130
    return 0 if all(not each.cut and each.course.tally.completed for each in found) else 1


def _check_run(given: argparse.Namespace) -> None:
    """InputError where options of `run` do not go together."""
    if not 1 <= given.times <= MOST_TIMES:
        raise InputError(f"--times: {given.times} is not from 1 to {MOST_TIMES}; write e.g. 3")
    if given.predict_only:
        if given.times > 1:
            raise InputError("--times goes without --predict-only; a prediction is of many simulated runs by itself")
        if given.html is not None:
            raise InputError("--html goes without --predict-only, which measures nothing; --json keeps what is told")
        return
    if given.turns is not None:
        raise InputError("--turns goes with --predict-only; of a run the pods' uids say when their pages are read")
    if given.began is not None:
        raise InputError("--began goes with --predict-only; a run begins when its controller does")


def _predict(scenario: "Scenario", path: Path, given: argparse.Namespace, command: str) -> int:
    """Only what the simulator says."""
    from autoscaler.cli.output import check_writable, write_together  # noqa: PLC0415 - not needed for --help
    from loadtests.run.document import foretold_as_json  # noqa: PLC0415 - the same
    from loadtests.run.predicted import Instants, predicted  # noqa: PLC0415 - the same
    from loadtests.run.scenario import Scaling  # noqa: PLC0415 - the same
    from loadtests.run.words import told  # noqa: PLC0415 - the same

    if scenario.scaling is not Scaling.DIRECT:
        raise InputError(f"{path}: scaling is {scenario.scaling.value}; the simulator has no KEDA, only direct")
    instants = Instants(_turns_s(given.turns), _began_s(given.began))
    check_writable([file for file in (given.json,) if file is not None])
    prediction = predicted(scenario, path.parent, instants=instants)
    print("\n".join(told(prediction.figures)))
    if given.json is not None:
        record = {"command": command, **foretold_as_json(scenario, path.name, prediction)}
        write_together({given.json: json.dumps(record, indent=1, allow_nan=False) + "\n"})
        print(f"wrote {given.json}")
    return 0


def _turns_s(text: str | None) -> tuple[float, ...]:
    """What `--turns` says; InputError where a part is no share of a second."""
    return () if text is None else tuple(_within("--turns", part, 1.0, "0.25,0.8") for part in text.split(","))


def _began_s(text: str | None) -> float | None:
    """What `--began` says; InputError where it lies outside of the ten seconds that arrivals are counted by."""
    from autoscaler.core.params import BIN_S  # noqa: PLC0415 - not needed for --help

    return None if text is None else _within("--began", text, BIN_S, "4.49")


def _within(option: str, text: str, below_s: float, example: str) -> float:
    try:
        found_s = float(text)
    except ValueError:
        found_s = math.nan
    if not 0.0 <= found_s < below_s:
        raise InputError(
            f"{option}: {text!r} is no number of seconds from 0 up to, but not, {below_s:g}; write e.g. {example}"
        )
    return found_s


def _document(
    scenario: "Scenario", way: "Scaling", path: Path, command: str, *, number: int, before: "Document | None"
) -> "Document":
    """One way of scaling, run and judged; `number` says which of several runs it is, 0 that it is the only one, and
    `before` is the run before it, whose prediction it has if it is scaled alike."""
    import msgspec  # noqa: PLC0415 - not needed for --help

    from loadtests.run.document import document  # noqa: PLC0415 - the same
    from loadtests.run.predicted import predicted  # noqa: PLC0415 - the same
    from loadtests.run.scenario import Scaling  # noqa: PLC0415 - the same
    from loadtests.run.standing import measured  # noqa: PLC0415 - the same

    chosen = msgspec.structs.replace(scenario, scaling=way)
    told = None
    if way is Scaling.DIRECT:
        again = before is not None and before.scenario.scaling is way
        told = before.prediction if before is not None and again else predicted(chosen, path.parent)
    return document(chosen, path, measured(chosen, path.parent, command), told, number)


def _middle(found: "Sequence[Document]") -> "Middle | None":
    """What several whole runs come to; None of fewer than two, and where nothing is predicted."""
    from loadtests.run.fidelity import in_the_middle  # noqa: PLC0415 - not needed for --help

    whole = [each for each in found if each.number and not each.cut]
    if len(whole) < 2 or whole[0].prediction is None:
        return None
    return in_the_middle([each.measured for each in whole], whole[0].prediction)


def _middle_lines(found: "Sequence[Document]") -> list[str]:
    from loadtests.run.words import middle_lines  # noqa: PLC0415 - not needed for --help

    middle = _middle(found)
    return [] if middle is None else middle_lines(middle)


def _write(found: "Sequence[Document]", command: str, html: Path, data: Path | None) -> None:
    from autoscaler.cli.output import write_together  # noqa: PLC0415 - not needed for --help
    from loadtests.run.document import as_json  # noqa: PLC0415 - the same
    from loadtests.run.page import page  # noqa: PLC0415 - the same

    middle = _middle(found)
    files = {html: page(found, command, middle)}
    if data is not None:
        runs = [as_json(each) for each in found]
        record: dict[str, object] = {"command": command}
        if found[0].number:
            record |= {"loadtest": "runs", "runs": runs, "middle": None if middle is None else middle.as_json()}
        elif len(runs) > 1:
            record |= {"loadtest": "compare", "runs": runs}
        else:
            record |= runs[0]
        files[data] = json.dumps(record, indent=1, allow_nan=False) + "\n"
    write_together(files)
