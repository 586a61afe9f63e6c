"""One line for each request that ended: when it was due, how long it was, what became of it.

Enters: requests as they end. Leaves: a CSV file that holds each of them from that instant on, and rows read back from
it. Seconds count from the start of the load, latencies from the instant at which a request was due. A request that was
never sent, or was open when the load was stopped, has no line.
"""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadtests.traffic.sender import Ended, Told

COLUMNS = ("number", "due_s", "end_s", "prompt_tokens", "output_tokens", "ttft_s", "failure")


@contextmanager
def logging_to(path: Path) -> Iterator[Told]:
    """What writes each request into a new file there, line by line."""
    with path.open("w", buffering=1, encoding="ascii") as file:
        file.write(",".join(COLUMNS) + "\n")

        def told(ended: Ended) -> None:
            first = "" if ended.ttft_s is None else f"{ended.ttft_s:.6f}"
            lengths = f"{ended.prompt_tokens},{ended.output_tokens}"
            file.write(f"{ended.number},{ended.due_s:.6f},{ended.end_s:.6f},{lengths},{first},{ended.failure}\n")

        yield told


def read_log(folder: Path) -> list[Ended]:
    """All requests of all workers, in order of when they were due; a line that was being written is left out."""
    return sorted((row for path in folder.glob("*.csv") for row in _rows(path)), key=lambda row: row.due_s)


def _rows(path: Path) -> Iterator[Ended]:
    text = path.read_text(encoding="ascii")
    for row in csv.DictReader(text[: text.rfind("\n") + 1].splitlines()):
        yield Ended(
            int(row["number"]), float(row["due_s"]), float(row["end_s"]), int(row["prompt_tokens"]),
            int(row["output_tokens"]), float(row["ttft_s"]) if row["ttft_s"] else None, row["failure"],
        )  # fmt: skip
