"""Where a command is told to write: files, links, pipes, devices, and what it must not touch."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.cli.output import check_writable, write_atomically, write_together
from autoscaler.errors import InputError

NOBODY = 65534


@pytest.fixture
def folder_of_nobody() -> Iterator[Path]:
    """A folder that anyone may write to, looked at by a user who is not root: root may write to everything."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        root = os.geteuid() == 0
        if root:
            os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)


def test_a_pipe_gets_the_content_and_stays_a_pipe(tmp_path: Path):
    pipe, got = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    check_writable([pipe])
    write_together({pipe: "scores"})
    reader.join(5)
    assert got == ["scores"]
    assert pipe.is_fifo()


def test_a_pipe_that_a_shell_names_by_its_number_is_written_to():
    """`--json >(jq .)`: no file can be made in the folder of that name."""
    read, write = os.pipe()
    try:
        pipe = Path(f"/dev/fd/{write}")
        check_writable([pipe])
        write_together({pipe: "scores"})
        assert os.read(read, 100) == b"scores"
    finally:
        os.close(read)
        os.close(write)


def test_a_device_stays_a_device(tmp_path: Path):
    """As root a file would take its place. A link to one stands in here for /dev/null itself."""
    device = tmp_path / "null"
    device.symlink_to("/dev/null")
    check_writable([device])
    write_together({device: "scores"})
    assert device.is_symlink()
    assert Path("/dev/null").is_char_device()


def test_a_link_stays_and_what_it_names_is_written(tmp_path: Path):
    (tmp_path / "kept").mkdir()
    link, file = tmp_path / "latest.json", tmp_path / "kept" / "scores.json"
    link.symlink_to(file)
    for text in ("first", "second"):
        check_writable([link])
        write_together({link: text})
        assert link.is_symlink()
        assert file.read_text() == text
    assert [path.name for path in file.parent.iterdir()] == ["scores.json"]


def test_a_file_keeps_the_rights_that_it_has(tmp_path: Path):
    file = tmp_path / "private.json"
    file.write_text("old")
    file.chmod(0o600)
    with write_atomically(file) as handle:
        handle.write(b"new")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o600)


def test_a_write_protected_file_is_refused_and_left_as_it_is(folder_of_nobody: Path):
    file = folder_of_nobody / "kept.json"
    file.write_text("old")
    file.chmod(0o444)
    with pytest.raises(InputError, match=r"kept.json: it is write-protected; give another file, or allow writing"):
        check_writable([file])
    assert file.read_text() == "old"


def test_the_file_that_standard_output_goes_to_is_refused(tmp_path: Path):
    """Replaced, all that was printed would be gone with the old file."""
    file = tmp_path / "all.txt"
    code = "import pathlib, sys; from autoscaler.cli import output; output.check_writable([pathlib.Path(sys.argv[1])])"
    with file.open("w") as stdout:
        done = subprocess.run(
            [sys.executable, "-c", code, file], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr.endswith(f"InputError: {file}: standard output goes there; give a file of its own\n")
