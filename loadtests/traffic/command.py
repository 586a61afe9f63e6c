"""`loadtests traffic URL`: load on an OpenAI-compatible service, and what it answered.

Enters: arguments. Leaves: a table on standard output, JSON where asked for, and an exit code: 0 the run came to its
end, 1 it was ended by errors or nothing was completed, 2 arguments that cannot be used, 130 interrupted; what was
measured until then is told in each case. Imports that take time wait until the arguments are read.
"""

import argparse
import json
import math
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from autoscaler.errors import HeadroomError, InputError

if TYPE_CHECKING:
    from loadtests.traffic.run import Plan
    from loadtests.traffic.schedule import Schedule

SHAPES = ("constant", "step", "ramp", "sine", "bursts", "trace")
DURATION_S = 60.0
_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def main(arguments: list[str]) -> int:
    """Run the load; see the module for the exit codes."""
    given = _parser().parse_args(arguments)
    try:
        return _run(given, shlex.join(["python3", "dev.py", "loadtests", "traffic", *without_secrets(arguments)]))
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        print("interrupted before anything was sent", file=sys.stderr)
        return 130


def without_secrets(arguments: list[str]) -> list[str]:
    """The arguments as a result may keep them: of headers the names only, as their values are often keys."""
    kept: list[str] = []
    for argument in arguments:
        header = argument.startswith("--header=") or kept[-1:] == ["--header"]
        kept.append(f"{argument.partition(':')[0]}:HIDDEN" if header else argument)
    return kept


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loadtests traffic", formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        description="Open-loop streaming load: requests are sent when due, and latencies count from then.",
        epilog="exit codes: 0 done; 1 ended by errors, or nothing completed; 2 unusable arguments; 130 interrupted",
    )  # fmt: skip
    add = parser.add_argument
    add("url", metavar="URL", help="the service, e.g. http://127.0.0.1:8000 or .../v1/chat/completions")
    add("--api", choices=["completions", "chat"], help="which API (default: the URL's, else completions)")
    add("--allow-host", action="append", default=[], metavar="NAME", help="send load to this host too, not only here")
    add("--model", help="the model's name (default: the first that the service lists)")
    add("--header", action="append", default=[], metavar="NAME:VALUE", help="sent with each request; kept out of "
        "the result")  # fmt: skip
    add("--at-will", action="store_true", help="let the model end its answers; without it vLLM and SGLang are asked "
        "for the whole length (ignore_eos), which other services may refuse")  # fmt: skip
    load = parser.add_argument_group("load").add_argument
    load("--shape", choices=SHAPES, help="course of the rate (default constant; trace with --trace)")
    load("--rate", type=float, help="requests/s (default 1); of a trace: its mean, by stretching time")
    load("--to", type=float, help="the other rate of step, ramp, sine and bursts (default: twice the rate)")
    load("--at", type=_seconds, help="when the step comes (default: half of --for)")
    load("--ramp", type=_seconds, help="how long the step takes (default: it comes at once)")
    load("--period", type=_seconds, help="of the sine, and from burst to burst (default 60s)")
    load("--burst", type=_seconds, help="how long a burst lasts (default 5s)")
    load("--even", action="store_true", help="requests at even distances instead of at random (Poisson)")
    load(
        "--trace", metavar="FILE[#day=N&...]", help="a recorded trace: Azure, BurstGPT, Mooncake, ServeGen, or our own"
    )
    load("--prompt-tokens", metavar="LENGTHS", help="N, uniform:LOW:HIGH, exponential:MEAN, lognormal:MEAN:CV "
         "(default 128, or the trace's)")  # fmt: skip
    load("--output-tokens", metavar="LENGTHS", help="the same (default 64, or the trace's)")
    load("--tenants", type=int, default=1, help="who they are from, as 'user', shared by Zipf's law (default 1)")
    load("--seed", type=int, default=0, help="the same seed asks the same, byte for byte (default 0)")
    bound = parser.add_argument_group("bounds").add_argument
    bound(
        "--for",
        dest="duration",
        type=_seconds,
        metavar="TIME",
        help="e.g. 90s, 5m (default 60s, of a trace all)",
    )
    bound("--requests", type=int, help="at most so many")
    bound("--stop-errors", type=float, default=0.5, metavar="RATIO", help="end when so many of 50 or more that ended "
          "have failed (default 0.5; 2 never ends)")  # fmt: skip
    bound("--timeout", type=_seconds, default=120.0, help="of a request, from when it was due (default 120s)")
    bound("--max-open", type=int, default=10_000, help="streams open at once; one more fails (default 10000)")
    own = parser.add_argument_group("the harness").add_argument
    own("--workers", type=int, default=1, help="processes that send (default 1)")
    own("--json", type=Path, help="write the result there")
    return parser


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", text)
    if found is None or not 0 <= float(found[1]) < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90, 90s, 5m or 1h")
    return float(found[1]) * _UNITS_S[found[2]]


def _run(given: argparse.Namespace, command: str) -> int:
    plan = _plan(given, command)
    import asyncio  # noqa: PLC0415 - not needed for --help and errors

    from rich.console import Console  # noqa: PLC0415 - the same

    from autoscaler.cli.output import check_writable, write_atomically  # noqa: PLC0415 - the same
    from loadtests.traffic.live import watching  # noqa: PLC0415 - the same
    from loadtests.traffic.report import lines, record, table  # noqa: PLC0415 - the same
    from loadtests.traffic.run import execute  # noqa: PLC0415 - the same

    check_writable([path for path in (given.json,) if path is not None])
    with watching(Console(stderr=True), len(plan.schedule)) as view:
        run, tally = asyncio.run(execute(plan, view))
    console = Console(highlight=False, soft_wrap=True)
    console.print(table(tally))
    for line in lines(run, tally):
        console.print(line, markup=False)
    if given.json is not None:
        with write_atomically(given.json) as file:
            file.write((json.dumps(record(run, tally), indent=1, allow_nan=False) + "\n").encode())
    if run.ended == "interrupted":
        return 130
    return 0 if run.ended == "done" and tally.completed else 1


def _plan(given: argparse.Namespace, command: str) -> "Plan":
    from loadtests.traffic.target import parse_target  # noqa: PLC0415 - after --help

    for name in ("tenants", "max_open", "workers", "requests"):
        value = getattr(given, name)
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")
    if given.seed < 0 or not given.timeout > 0 or not given.stop_errors > 0:
        raise InputError("--seed must be 0 or more, --timeout and --stop-errors above 0")
    target = parse_target(given.url, api=given.api, allowed=given.allow_host)
    headers = dict(_header(text) for text in given.header)
    _check_files(given.max_open, given.workers)
    schedule = _schedule(given)
    from loadtests.traffic.run import Plan  # noqa: PLC0415 - after --help

    return Plan(
        command, given.seed, target, given.model, headers, not given.at_will, schedule,
        min(given.workers, len(schedule)), given.timeout, given.max_open, given.stop_errors,
    )  # fmt: skip


def _schedule(given: argparse.Namespace) -> "Schedule":
    from loadtests.traffic.lengths import parse  # noqa: PLC0415 - after --help
    from loadtests.traffic.schedule import DEFAULT_OUTPUTS, DEFAULT_PROMPTS, drawn, replayed  # noqa: PLC0415
    from loadtests.traffic.shapes import Shape, idle_word  # noqa: PLC0415

    prompts = None if given.prompt_tokens is None else parse("--prompt-tokens", given.prompt_tokens)
    outputs = None if given.output_tokens is None else parse("--output-tokens", given.output_tokens)
    kind = given.shape or ("trace" if given.trace else "constant")
    if (kind == "trace") is not (given.trace is not None):
        raise InputError("--shape trace and --trace FILE belong together; the other shapes need no file")
    words = [word for word in ("to", "at", "ramp", "period", "burst") if getattr(given, word) is not None]
    idle = idle_word(kind, words)
    if idle is not None:
        raise InputError(f"--{idle[0]} {idle[1]}")
    if kind == "trace":
        if given.even:
            raise InputError("--even: a trace has its own instants; leave it out")
        if given.duration == 0.0:
            raise InputError("--for is 0.0; it must be above 0, and finite")
        if given.rate is not None and not 0 < given.rate < math.inf:
            raise InputError(f"--rate is {given.rate}; it must be above 0")
        schedule = replayed(
            given.trace, duration_s=given.duration, rate=given.rate, prompts=prompts, outputs=outputs,
            tenants=given.tenants, seed=given.seed,
        )  # fmt: skip
    else:
        rate = 1.0 if given.rate is None else given.rate
        duration_s = DURATION_S if given.duration is None else given.duration
        at_s = duration_s / 2.0 if given.at is None else given.at
        ramp_s = given.ramp or 0.0
        if kind == "step" and (at_s >= duration_s or at_s + ramp_s > duration_s):
            raise InputError(
                f"--at {at_s:g} s with --ramp {ramp_s:g} s: the step is not done by the end, {duration_s:g} s; "
                "lower them, or raise --for"
            )
        shape = Shape(
            kind, rate, 2.0 * rate if given.to is None else given.to, duration_s, at_s,
            60.0 if given.period is None else given.period, 5.0 if given.burst is None else given.burst, ramp_s,
        )  # fmt: skip
        schedule = drawn(
            shape, prompts=prompts or DEFAULT_PROMPTS, outputs=outputs or DEFAULT_OUTPUTS, tenants=given.tenants,
            seed=given.seed, even=given.even,
        )  # fmt: skip
    return schedule if given.requests is None else schedule.first(given.requests)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z0-9-]+", name) or not re.fullmatch(r"[ -~]*", value):
        raise InputError("--header: write NAME:VALUE, in ASCII")  # what was written may be a key
    return name, value.strip()


def _check_files(most_open: int, workers: int) -> None:
    import resource  # noqa: PLC0415 - after --help

    hard, spare = resource.getrlimit(resource.RLIMIT_NOFILE)[1], 64
    if hard != resource.RLIM_INFINITY and most_open // workers + spare > hard:
        raise InputError(
            f"--max-open {most_open} needs more files than a process may open here ({hard}); lower it, give more "
            "--workers, or raise the hard limit (ulimit -Hn)"
        )
