"""`headroom decide`: readings on standard input, decisions on standard output, one line each."""

import os
import sys
from contextlib import suppress
from typing import Annotated, TextIO

import typer

from autoscaler.cli.stdin import bytes_in
from autoscaler.errors import InputError


def decide(
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Read and write one JSON object per line (the one format so far).")
    ] = False,
) -> None:
    """Turn readings on standard input into decisions on standard output, each answered at once.

    A line: {"now_s": 5, "workload": "ns/name", "policy": {...}, "replicas": {"desired", "ready", "starting":
    [{"since_s", "name"}]}, "pods": [{"name", "ready_since_s", "waiting", "waiting_deferred", "running",
    "requests_total", "prompt_tokens_total", "generation_tokens_total", "kv_cache_usage"}], "gateway": {"queued",
    "requests_total"}, "latency": {"queue_s_p90", "ttft_s_p90", "tpot_s_p90"}, "limits": {"quota_replicas",
    "budget_replicas", "budget_words"}}. The first line of a workload carries its policy: {"min_replicas",
    "max_replicas", "slo": {"wait_s" or "ttft_s" or "tpot_s"}, "tick_s", "warmup_prior_s"}; a later line may change some
    of it. Any reading may be null or missing. A start keeps its "since_s", the instant of its order: another one is
    another start, and that the first one failed.

    A faulty line is answered by {"error", "line", "workload"}, changes nothing, and the stream goes on. Further fields
    of a line are yours; standard error names each once, for it may be a misspelled one. The exit code is 0, or 2 when
    there were lines and every one of them was faulty.
    """
    if not jsonl:
        raise InputError("decide: no format given; say `headroom decide --jsonl`")
    if sys.stdout is None:
        raise InputError("decide: standard output is closed; nobody would read an answer")
    lines = bytes_in("decide")
    # Numerics are imported here, after the help.
    from autoscaler.cli.stream import DecideStream
    from autoscaler.fitting.late import fit

    stream = DecideStream(fit)
    out = sys.stdout.buffer
    try:
        for text in lines:
            out.write(stream.answer(text) + b"\n")
            out.flush()
            _tell(stream.notes)
            stream.catch_up()
    except BrokenPipeError:
        _mute(sys.stdout)  # the reader has seen enough
    if stream.lines and not stream.decided:
        raise typer.Exit(2)


def _tell(notes: list[str]) -> None:
    """Write the notes to standard error, where there is one, and clear them: nobody who reads answers sees them."""
    if notes and sys.stderr is not None:
        try:
            print(*(f"note: {text}" for text in notes), sep="\n", file=sys.stderr, flush=True)
        except OSError:  # whoever closed it wants no notes, and gets the answers all the same
            _mute(sys.stderr)
    notes.clear()


def _mute(stream: TextIO) -> None:
    """Take what is left of a stream that takes nothing: Python flushes once more when it ends, which must not fail."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
