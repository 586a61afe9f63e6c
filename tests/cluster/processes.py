"""Processes of a test's own: started with a log file, signalled, and gone when the block ends."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], object], seconds: float, what: str, every_s: float = 0.05) -> None:
    """Return once `condition` is true; AssertionError naming `what` after `seconds`."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(every_s)


class Process:
    """One program with its output in `log`; a context manager that ends it."""

    def __init__(self, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.command = [str(part) for part in command]
        self.log = log
        self._env = dict(env) if env is not None else None
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it; output is appended to the log."""
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self.command, stdout=output, stderr=subprocess.STDOUT, env=self._env, start_new_session=True
            )
        return self

    @property
    def pid(self) -> int:
        """The process id of the running program."""
        assert self._child is not None
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        assert self._child is not None
        return self._child.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program and its children."""
        os.killpg(self.pid, number)

    def kill(self) -> None:
        """End it at once, frozen or not."""
        if self._child is not None and self._child.poll() is None:
            self.signal(signal.SIGKILL)
            self._child.wait()

    def stop(self, seconds: float = 20.0) -> int:
        """Ask it to end, and insist after `seconds`; its exit code."""
        assert self._child is not None
        if self._child.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return int(self._child.returncode)

    def wait(self, seconds: float) -> int:
        """Its exit code once it has ended by itself. AssertionError after `seconds`."""
        wait_for(lambda: self.returncode is not None, seconds, f"{self.command[0]} to end")
        assert self.returncode is not None
        return self.returncode

    def words(self) -> str:
        """All it has written so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
