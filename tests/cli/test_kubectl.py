"""The plugin: `kubectl headroom` is the same command, and kubectl completes it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.real import parts

TOOLS: Final = Path(sys.executable).parent

COMPLETED: Final = {
    "a command": (["expl"], "explain\tSay why a replica count is what it is.\n:4\n"),
    "an option": (["pause", "--clu"], "--cluster\tFreeze, or resume, everything in the cluster.\n:4\n"),
    "an option's file": (["doctor", "--kubeconfig", "/t"], ":0\n"),
    "a word that nothing begins with": (["zzz"], ":4\n"),
}


@pytest.mark.parametrize(("words", "expected"), COMPLETED.values(), ids=COMPLETED)
def test_kubectl_is_told_what_may_follow(words: list[str], expected: str) -> None:
    done = subprocess.run([TOOLS / "kubectl_complete-headroom", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.lstrip("\n").replace("\n\n", "\n") == expected


def test_without_a_word_every_command_may_follow() -> None:
    done = subprocess.run([TOOLS / "kubectl_complete-headroom", ""], capture_output=True, text=True, check=False)
    assert {"run", "explain", "doctor"} <= {line.partition("\t")[0] for line in done.stdout.splitlines()}


@pytest.mark.real
@pytest.mark.needs("control-plane")
def test_the_real_kubectl_runs_and_completes_the_plugin(tmp_path: Path) -> None:
    kubectl = parts.program("kubectl")
    assert kubectl is not None
    env = {"PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    for words, expected in ((("headroom", "--version"), "headroom "), (("__complete", "headroom", "expl"), "explain")):
        done = subprocess.run([kubectl, *words], capture_output=True, text=True, check=False, env=env)
        assert done.stdout.startswith(expected), done.stdout + done.stderr
