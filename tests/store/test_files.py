"""Rotated files on a real disk: whole lines after every accident, names that sort, and no more files than allowed."""

import asyncio
import errno
import gzip
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import pytest

from autoscaler.adapters.store.files import RotatedFiles
from autoscaler.ports import Fault, PortError
from autoscaler.record.audit import audit_line, read_audit
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.writer import Writer
from tests.record.decisions import make_decision


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def kept(folder: Path) -> list[bytes]:
    """Every line in the folder, oldest first."""
    texts = [gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in sorted(folder.iterdir())]
    return b"".join(texts).split(b"\n")[:-1]


def numbered(first: int, count: int) -> list[bytes]:
    """Lines of nine bytes and an end."""
    return [b"line %04d" % number for number in range(first, first + count)]


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """A disk that is full: the kernel lets a file of this process grow to `limit` bytes, and writes what still fits."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def swap(sink: RotatedFiles, kind: type[FileIO]) -> None:
    """Put a faulty kind of file in the place of the open one."""
    assert sink._file is not None
    sink._file.close()
    sink._file = kind(sink._path, "r+b")
    sink._file.seek(0, os.SEEK_END)


async def test_lines_are_appended_in_order_across_restarts(tmp_path: Path) -> None:
    for start in (0, 3):
        async with RotatedFiles(tmp_path, "audit") as sink:
            await sink.write(numbered(start, 2))
            await sink.write([])
            await sink.write(numbered(start + 2, 1))
    assert names(tmp_path) == ["audit-000000000001.jsonl"]
    assert kept(tmp_path) == numbered(0, 6)


async def test_a_full_file_is_closed_compressed_and_the_oldest_go(tmp_path: Path) -> None:
    async with RotatedFiles(tmp_path, "audit", max_bytes=100, keep=3) as sink:
        for start in range(0, 60, 5):  # 50 bytes a batch, two batches a file, six files
            await sink.write(numbered(start, 5))
    expected = ["audit-000000000004.jsonl.gz", "audit-000000000005.jsonl.gz", "audit-000000000006.jsonl"]
    assert names(tmp_path) == expected
    assert kept(tmp_path) == numbered(30, 30)


async def test_a_batch_is_never_split_over_two_files(tmp_path: Path) -> None:
    async with RotatedFiles(tmp_path, "audit", max_bytes=100) as sink:
        await sink.write(numbered(0, 3))
        await sink.write(numbered(3, 50))
        await sink.write(numbered(53, 1))
    assert [len(gzip.decompress((tmp_path / name).read_bytes())) for name in names(tmp_path)[:2]] == [30, 500]
    assert kept(tmp_path) == numbered(0, 54)


async def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    others = ["audit-1.jsonl", "audit-other-000000000009.jsonl", "audit.jsonl", "journal-000000000009.jsonl"]
    for name in others:
        (tmp_path / name).write_bytes(b"not ours\n")
    async with RotatedFiles(tmp_path, "audit", max_bytes=10, keep=1) as sink:
        for start in range(3):
            await sink.write(numbered(start, 1))
    assert names(tmp_path) == ["audit-000000000003.jsonl", *others]
    assert all((tmp_path / name).read_bytes() == b"not ours\n" for name in others)


@pytest.mark.parametrize(
    "torn", [b"", b"x", b"\xff" * 200_000], ids=["nothing torn", "one byte", "more than is read at once"]
)
async def test_a_torn_last_line_is_cut_off_at_the_next_start(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "audit-000000000007.jsonl"
    path.write_bytes(b"line 0000\nline 0001\n" + torn)
    async with RotatedFiles(tmp_path, "audit") as sink:
        await sink.write(numbered(2, 1))
    assert kept(tmp_path) == numbered(0, 3)


async def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path: Path) -> None:
    (tmp_path / "audit-000000000001.jsonl").write_bytes(b"x" * 200_000)
    async with RotatedFiles(tmp_path, "audit") as sink:
        await sink.write(numbered(0, 1))
    assert kept(tmp_path) == numbered(0, 1)


KILLED = """
import asyncio, sys
from pathlib import Path
from autoscaler.adapters.store.files import RotatedFiles

async def main():
    sink = RotatedFiles(Path(sys.argv[1]), "audit", max_bytes=2_000_000)
    for number in range(10**9):
        await sink.write([b"line %09d " % number + b"x" * 300_000])
        print(number, flush=True)

asyncio.run(main())
"""


def write_until_killed(folder: Path) -> int:
    """The last line that a process, killed at work, had written according to its sink."""
    with subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(20)]
        child.send_signal(signal.SIGKILL)
        return max([*told, *map(int, child.stdout.read().split())])


async def test_a_process_killed_while_it_writes_leaves_whole_lines(tmp_path: Path) -> None:
    told = await asyncio.to_thread(write_until_killed, tmp_path)
    async with RotatedFiles(tmp_path, "audit") as sink:
        await sink.write([b"line after"])
    lines = [line for line in kept(tmp_path) if line != b"line after"]
    assert {len(line) for line in lines} == {300_015}
    assert int(lines[-1][5:14]) >= told, "what the sink had said to be written is there"


async def test_a_full_disk_takes_nothing_of_a_batch_and_the_writer_brings_all_of_it_later(tmp_path: Path) -> None:
    async with RotatedFiles(tmp_path, "audit") as sink:
        writer = Writer(sink, ScaledClock())
        await sink.write(numbered(0, 2))
        for line in numbered(2, 10):
            writer.add(line)
        with file_size_limit(55):  # two lines stand, three and a half would still fit
            assert await writer.flush() is False
            assert kept(tmp_path) == numbered(0, 2)
            with pytest.raises(PortError, match="File too large"):
                await sink.write(numbered(2, 10))
        assert await writer.flush() is True
    assert kept(tmp_path) == numbered(0, 12)
    assert (writer.waiting, writer.lost) == (0, 0)


async def test_what_could_not_be_cut_off_at_once_is_cut_off_before_the_next_write(
    tmp_path: Path,
) -> None:
    """A disk so broken that even the cut fails; some of the batch's lines stand whole in the meantime."""

    class Broken(FileIO):
        def truncate(self, size: int | None = None) -> int:
            raise OSError(errno.EIO, "Input/output error")

    async with RotatedFiles(tmp_path, "audit") as sink:
        await sink.write(numbered(0, 2))
        swap(sink, Broken)
        with file_size_limit(55), pytest.raises(PortError):
            await sink.write(numbered(2, 10))
        assert len(kept(tmp_path)) > 2
        await sink.write(numbered(2, 10))
    assert kept(tmp_path) == numbered(0, 12)


async def test_a_folder_that_is_gone_is_a_fault_until_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    async with RotatedFiles(folder, "audit") as sink:
        with pytest.raises(PortError, match="audit: No such file or directory"):
            await sink.write(numbered(0, 1))
        folder.mkdir()
        await sink.write(numbered(0, 1))
        folder.rename(tmp_path / "away")
        with pytest.raises(PortError, match="No such file"):
            await sink.write(numbered(1, 1))
        folder.mkdir()
        await sink.write(numbered(1, 1))
    assert (kept(tmp_path / "away"), kept(folder)) == (numbered(0, 1), numbered(1, 1))


async def test_a_file_that_somebody_deleted_is_not_written_to_any_more(tmp_path: Path) -> None:
    async with RotatedFiles(tmp_path, "audit") as sink:
        await sink.write(numbered(0, 1))
        sink._path.unlink()
        await sink.write(numbered(1, 1))
    assert kept(tmp_path) == numbered(1, 1)


@pytest.mark.parametrize(
    ("number", "fault"),
    [(errno.EACCES, Fault.DENIED), (errno.EROFS, Fault.DENIED), (errno.ENOSPC, Fault.UNAVAILABLE),
     (errno.EIO, Fault.UNAVAILABLE)],
    ids=["no rights", "read-only", "full", "broken"],
)  # fmt: skip
async def test_what_the_disk_says_is_told_as_a_fault(tmp_path: Path, number: int, fault: Fault) -> None:
    class Refusing(FileIO):
        def write(self, text: object) -> int:
            raise OSError(number, os.strerror(number))

    async with RotatedFiles(tmp_path, "audit") as sink:
        await sink.write(numbered(0, 1))
        swap(sink, Refusing)
        with pytest.raises(PortError, match=os.strerror(number)) as caught:
            await sink.write(numbered(1, 1))
        assert caught.value.fault is fault
        await sink.write(numbered(1, 1))
    assert kept(tmp_path) == numbered(0, 2)


async def test_a_file_that_could_not_be_compressed_stays_and_is_compressed_in_its_turn(tmp_path: Path) -> None:
    (tmp_path / "audit-000000000001.part").mkdir()  # stands where the compressed one would be made
    async with RotatedFiles(tmp_path, "audit", max_bytes=10) as sink:
        await sink.write(numbered(0, 1))
        await sink.write(numbered(1, 1))
        assert "audit-000000000001.jsonl" in names(tmp_path)
        (tmp_path / "audit-000000000001.part").rmdir()
        await sink.write(numbered(2, 1))
    assert [name.partition(".")[2] for name in names(tmp_path)] == ["jsonl.gz", "jsonl.gz", "jsonl"]
    assert kept(tmp_path) == numbered(0, 3)


async def test_a_new_file_is_begun_where_the_newest_is_a_finished_one(tmp_path: Path) -> None:
    (tmp_path / "audit-000000000041.jsonl.gz").write_bytes(gzip.compress(b"line 0000\n"))
    async with RotatedFiles(tmp_path, "audit") as sink:
        await sink.write(numbered(1, 1))
    assert names(tmp_path)[-1] == "audit-000000000042.jsonl"
    assert kept(tmp_path) == numbered(0, 2)


async def test_batches_that_come_at_once_are_written_one_after_the_other(tmp_path: Path) -> None:
    """As after a shutdown that gave up waiting: the thread of the cancelled write is still at work."""
    async with RotatedFiles(tmp_path, "audit", max_bytes=200) as sink, asyncio.TaskGroup() as group:
        for start in range(0, 200, 10):
            group.create_task(sink.write(numbered(start, 10)))
    lines = kept(tmp_path)
    assert sorted(lines) == numbered(0, 200)
    assert all(lines[at : at + 10] == numbered(int(lines[at][5:]), 10) for at in range(0, 200, 10))


async def test_decisions_are_read_back_from_plain_and_compressed_files(tmp_path: Path) -> None:
    decisions = [make_decision(now_s=float(second)) for second in range(4)]
    async with RotatedFiles(tmp_path, "audit", max_bytes=10) as sink:
        for decision in decisions:
            await sink.write([audit_line(decision)])
    assert [d for name in names(tmp_path) for d in read_audit(tmp_path / name)] == decisions


@pytest.mark.parametrize("given", [{"max_bytes": 0}, {"keep": 0}])
def test_figures_that_allow_no_file_are_refused(tmp_path: Path, given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="both must be positive"):
        RotatedFiles(tmp_path, "audit", **given)
