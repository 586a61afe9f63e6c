"""What a real test leaves to the garbage collector fails that test, and not the one in which the collector comes by."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

SUITE = """
import asyncio
import socket

import pytest

pytestmark = pytest.mark.real

class Ring:
    def __init__(self):
        self.own, self.open = self, socket.socket()

def test_leaves_a_socket():
    Ring()

@pytest.fixture
async def endpoint():
    loop = asyncio.get_running_loop()
    yield await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))

async def test_asks_for_what_its_fixture_leaves_open(endpoint): pass

def test_closes_what_it_opens():
    Ring().open.close()

def test_is_the_last(): pass
"""


def test_whoever_leaves_a_socket_or_a_transport_open_fails_and_no_other_does(tmp_path: Path) -> None:
    (tmp_path / "tests" / "real").mkdir(parents=True)
    for name in ("conftest.py", "real/environments.py", "real/parts.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests" / "test_sample.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True, check=False)
    failed = re.findall(
        r"^_+ ERROR at teardown of (\w+) _+\nleft open, by this test.*\n.*unclosed (\S+)", done.stdout, re.MULTILINE
    )
    assert failed == [
        ("test_leaves_a_socket", "<socket.socket"),
        ("test_asks_for_what_its_fixture_leaves_open", "transport"),
    ], done.stdout
    assert "4 passed, 2 errors" in done.stdout
