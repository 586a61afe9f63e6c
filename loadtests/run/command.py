"""`loadtests run SCENARIO`: one scenario on a real control plane, judged, and beside it what the simulator says.

Enters: a scenario file. Leaves: a summary on standard output, an HTML report, JSON where asked for, and an exit code:
0 the run came to its end, 1 it was ended by errors or something did not start, 2 a scenario or arguments that cannot be
used, 130 interrupted; what was measured until then is told in each case.
"""

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from autoscaler.errors import HeadroomError, InputError

if TYPE_CHECKING:
    from loadtests.run.course import Course
    from loadtests.run.document import Document


GPUS_PER_NODE = 8


def main(arguments: list[str]) -> int:
    """Run the scenario; see the module for the exit codes."""
    given = _parser().parse_args(arguments)
    try:
        return _run(given, shlex.join(["python3", "dev.py", "loadtests", "run", *arguments]))
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        print("interrupted before anything was sent", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loadtests run", allow_abbrev=False,
        description="A scenario on a real control plane: API server, scheduler, controller-manager and the controller, "
        "with fake nodes, and servers that behave like engines behind the pods. Control loop, not GPU.",
        epilog="exit codes: 0 done; 1 ended by errors; 2 unusable arguments; 130 interrupted",
    )  # fmt: skip
    add = parser.add_argument
    add("scenario", type=Path, metavar="SCENARIO", help="a YAML file, e.g. loadtests/scenarios/doubling.yaml")
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    add("--html", type=Path, metavar="FILE", help="write the report there (default: SCENARIO's name.html, here)")
    add("--predict-only", action="store_true", help="only what the simulator says; starts nothing")
    return parser


def _run(given: argparse.Namespace, command: str) -> int:
    from autoscaler.cli.output import check_writable  # noqa: PLC0415 - not needed for --help
    from loadtests.run.predicted import predicted  # noqa: PLC0415 - the same
    from loadtests.run.scenario import read_scenario  # noqa: PLC0415 - the same
    from loadtests.run.words import told  # noqa: PLC0415 - the same

    scenario = read_scenario(given.scenario)
    prediction = predicted(scenario, given.scenario.parent)
    if given.predict_only:
        print("\n".join(told(prediction.figures)))
        return 0
    html = given.html if given.html is not None else Path(f"{given.scenario.stem}.html")
    check_writable([path for path in (given.json, html) if path is not None])
    from tests.real import parts  # noqa: PLC0415 - the same

    missing = parts.missing(parts.CONTROL_PLANE)
    if missing:
        raise InputError(missing)
    from rich.console import Console  # noqa: PLC0415 - the same

    from loadtests.run.document import document  # noqa: PLC0415 - the same
    from loadtests.run.words import lines  # noqa: PLC0415 - the same

    found = document(scenario, given.scenario, _measured(given.scenario, command), prediction)
    _write(found, command, html, given.json)
    console = Console(highlight=False, soft_wrap=True)
    for line in lines(found):
        console.print(line, markup=False)
    console.print(f"wrote {html}" + ("" if given.json is None else f" and {given.json}"), markup=False)
    if found.course.run.ended == "interrupted":
        return 130
    return 0 if not found.cut and found.course.tally.completed else 1


def _measured(path: Path, command: str) -> "Course":
    """Run it on a control plane of its own, which is gone afterwards."""
    import asyncio  # noqa: PLC0415 - not needed for --help

    from rich.console import Console  # noqa: PLC0415 - the same

    from loadtests.run.course import CourseError, course  # noqa: PLC0415 - the same
    from loadtests.run.scenario import read_scenario  # noqa: PLC0415 - the same
    from loadtests.traffic.live import watching  # noqa: PLC0415 - the same
    from tests.cluster.conftest import install  # noqa: PLC0415 - the same
    from tests.cluster.plane import Plane  # noqa: PLC0415 - the same

    scenario = read_scenario(path)
    console = Console(stderr=True, highlight=False)
    nodes = 1 + scenario.policy.max_replicas * scenario.engine.gpus // GPUS_PER_NODE
    console.print("starting the control plane", markup=False)
    with tempfile.TemporaryDirectory(prefix="headroom-run-") as folder:
        try:
            with Plane(Path(folder) / "plane", nodes=nodes, gpus=GPUS_PER_NODE) as plane:
                install(plane)
                with watching(console, len(scenario.schedule())) as view:
                    return asyncio.run(course(scenario, path.parent, plane, view, command=command, say=console.print))
        except AssertionError as error:  # how those who start its parts say what they waited for
            raise CourseError(f"the control plane did not start: {error}") from error


def _write(found: "Document", command: str, html: Path, data: Path | None) -> None:
    from autoscaler.cli.output import write_together  # noqa: PLC0415 - not needed for --help
    from loadtests.run.document import as_json  # noqa: PLC0415 - the same
    from loadtests.run.page import page  # noqa: PLC0415 - the same

    files = {html: page(found, command)}
    if data is not None:
        files[data] = json.dumps({"command": command, **as_json(found)}, indent=1, allow_nan=False) + "\n"
    write_together(files)
