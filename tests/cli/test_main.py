"""The command's frame: quick help, lazy sub-commands, completion, and our errors as one line with an exit code."""

import ast
import errno
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from autoscaler import __version__
from autoscaler.cli import main
from autoscaler.errors import HeadroomError, InputError
from tests.conftest import ROOT

run = CliRunner().invoke


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A sub-command `sample FILE` that the table lists; its module is loaded when it runs."""
    module = ModuleType("autoscaler.cli.sample")
    errors: dict[str, Exception] = {
        "bad.csv": InputError("bad.csv: line 3: column 'arrival_s': 'x' is no number; give seconds"),
        "lost": HeadroomError("the lease was lost"),
        "full": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/var/lib/books"),
    }

    def sample(file: str, times: int = 1) -> None:
        """Read FILE some times."""
        if file in errors:
            raise errors[file]
        print(file * times)

    module.__dict__["sample"] = sample
    monkeypatch.setitem(sys.modules, "autoscaler.cli.sample", module)
    monkeypatch.setitem(main.SUMMARIES, "sample", "Read a file.")
    return module


def test_help_lists_every_sub_command_with_its_line_and_imports_no_numerics() -> None:
    script = (
        "import sys; from autoscaler.cli.main import app; app(['--help'], standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert all(name in done.stdout and line[:20] in done.stdout for name, line in main.SUMMARIES.items())
    modules = set(done.stdout.splitlines()[-1].split())
    assert "autoscaler.cli.main" in modules
    assert not {"numpy", "sklearn", "scipy", "pydantic", "asyncio"} & modules


def test_no_arguments_show_the_help() -> None:
    result = run(main.app, [])
    assert "COMMAND" in result.output


def test_version_is_the_packages_own() -> None:
    result = run(main.app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"headroom {__version__}\n")


def test_an_unknown_sub_command_is_refused_with_those_that_are_spelled_like_it() -> None:
    assert run(main.app, ["nope"]).exit_code == 2
    result = run(main.app, ["simulat"])
    assert result.exit_code == 2
    assert "No such command 'simulat'. Did you mean 'simulate'?" in result.stderr


SLOW = (
    "numpy", "scipy", "sklearn", "pandas", "multiprocessing", "msgspec", "yaml", "aiohttp", "requests", "grpc",
    "kubernetes_asyncio", "prometheus_client", "prometheus_api_client", "pydantic_settings", "autoscaler.core",
    "autoscaler.api", "autoscaler.app", "autoscaler.adapters",
)  # fmt: skip
"""What help has no use for. pydantic is not among them: typer itself reads parameters by it where it is installed."""


def test_help_of_no_sub_command_waits_for_a_library_that_takes_long() -> None:
    """A third of a second, and as long for each Tab of completion: scikit-learn alone takes one, numpy a tenth."""
    script = f"""if True:
        import sys
        from autoscaler.cli.main import SUMMARIES, app
        found = []
        for name in SUMMARIES:
            assert app([name, "--help"], prog_name="headroom", standalone_mode=False) == 0, name
            found += [f"{{name}}: {{each}}" for each in {SLOW} if each in sys.modules]
            if found:
                break
        print(f"slow: {{found}}")
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert all(f"headroom {name} " in done.stdout for name in main.SUMMARIES)
    assert done.stdout.splitlines()[-1] == "slow: []"


@pytest.mark.parametrize("words", ["--help", "--version", "simulate --help"])
def test_where_output_cannot_be_written_that_is_said_in_words(words: str) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "autoscaler", *words.split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    told = "error: output cannot be written (No space left on device); make room, or send it elsewhere\n"
    assert (done.returncode, done.stderr) == (1, told)


def test_a_command_whose_output_is_closed_ends_as_it_would() -> None:
    """`headroom --version >&-`: Python has no standard output then."""
    script = 'exec "$0" -m autoscaler --version >&-'
    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "words",
    [
        "replay {}", "report {}", "explain {}.jsonl", "simulate --trace {} --warmup 60 --policy kpa", "run --config {}",
        "simulate --workload ramp --warmup 60 --policy kpa --json {}", "preflight --trace x --out {}",
        "status --kubeconfig {}", "replay x --set slo.wait_s=5 --report {}",
    ],
)  # fmt: skip
def test_a_path_that_cannot_be_looked_at_is_refused_in_one_line(words: str) -> None:
    """Too long a name here; another person's folder is refused by the same calls, but not to root, who tests."""
    name = "a" * 300
    result = run(main.app, words.format(name).split())
    assert result.exit_code == 2, result.exception
    assert result.stderr.startswith("error: ")
    assert name in result.stderr
    assert "File name too long" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", ["simulate --warmup 60 --policy kpa --trace {}", "preflight --trace x --out {}"])
def test_a_name_that_is_no_text_is_refused_before_a_report_repeats_it(words: str, tmp_path: Path) -> None:
    (tmp_path / "trace\udcff").touch()
    done = subprocess.run(
        [sys.executable, "-m", "autoscaler", *(os.fsencode(word.format("trace\udcff")) for word in words.split())],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: 'trace\\udcff': it is not UTF-8; give the file another name\n"


def test_a_reason_that_is_no_text_is_to_be_written_in_utf_8_and_a_file_to_be_renamed(tmp_path: Path) -> None:
    """Typed in Latin-1 a reason is none either; there is no file of that name to give another one to."""
    command = [sys.executable, "-m", "autoscaler", "pause", "prod/chat"]
    for word in (b"ge\xe4ndert", b"--reason=ge\xe4ndert"):
        done = subprocess.run([*command, "--reason", word], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith("ge\\udce4ndert': it is not UTF-8; write it in UTF-8\n")
    (tmp_path / os.fsdecode(b"\xff")).touch()
    for words in (["--trace", b"\xff"], [b"--trace=\xff"]):
        done = subprocess.run(
            [sys.executable, "-m", "autoscaler", "simulate", *words],
            capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.stderr.endswith("\\udcff': it is not UTF-8; give the file another name\n")


@pytest.mark.parametrize(
    ("command", "loading"),
    [("-m autoscaler --help", "typer"), ("-m autoscaler decide --jsonl", "msgspec"), ("dev.py --help", "hashlib")],
)
def test_an_interrupt_while_modules_load_ends_without_a_traceback(command: str, loading: str, tmp_path: Path) -> None:
    """A module of that name stands before the real one, and Ctrl-C comes while it is loaded."""
    (tmp_path / f"{loading}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_older_python_is_told_which_one_is_needed() -> None:
    """The python3 of a machine may be 3.9, which cannot even define what stands below the check."""
    tree = ast.parse((ROOT / "dev.py").read_text(), feature_version=(3, 7))
    at = next(i for i, node in enumerate(tree.body) if isinstance(node, ast.If) and "version_info" in ast.dump(node))
    assert all(isinstance(node, ast.Expr | ast.Import) for node in tree.body[:at])
    script = (
        "import runpy, sys; sys.version_info = (3, 9, 18); sys.version = '3.9.18 (main)'; "
        "runpy.run_path('dev.py', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"dev.py: error: Python 3.11 or newer is needed; {sys.executable} is 3.9.18. Start it with a newer one\n"
    )


def test_the_installed_commands_begin_where_an_interrupt_is_waited_for() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["headroom"] == scripts["kubectl-headroom"] == "autoscaler.cli.start:start"


def test_what_the_encoding_of_output_has_no_sign_for_is_an_escape(tmp_path: Path) -> None:
    answer = {
        "now_s": 0, "workload": "prod/🔥", "replicas": 5, "verdict": "SCALE", "reason": "QUEUE_UNCALIBRATED",
        "text": "3→5",
        "trace": [{"stage": "demand", "before": 3, "after": 5, "reason": "QUEUE_UNCALIBRATED", "evidence": {}}],
    }  # fmt: skip
    (tmp_path / "answers.jsonl").write_text(json.dumps(answer))
    command = [sys.executable, "-m", "autoscaler", "explain", "answers.jsonl"]
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    told = subprocess.check_output(command, cwd=tmp_path, env=env, text=True)
    assert "prod/\\ud83d\\udd25  3 \\u2192 5" in told
    found = json.loads(subprocess.check_output([*command, "--json"], cwd=tmp_path, env=env))
    assert (found["workload"], found["text"][:3]) == ("prod/🔥", "3→5")


def test_a_reader_that_has_seen_enough_gets_no_words() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "autoscaler", "--help"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.usefixtures("sample")
def test_a_sub_command_gets_its_arguments() -> None:
    result = run(main.app, ["sample", "trace ", "--times", "2"])
    assert (result.exit_code, result.stdout) == (0, "trace trace \n")


@pytest.mark.usefixtures("sample")
def test_a_sub_command_explains_itself_by_its_docstring() -> None:
    result = run(main.app, ["sample", "--help"])
    assert result.exit_code == 0
    assert "Read FILE some times." in result.stdout
    assert "headroom sample" in result.stdout


def test_help_is_broken_where_the_terminal_ends_and_not_where_the_source_is() -> None:
    told = run(main.app, ["explain", "--help"], env={"COLUMNS": "200"}).stdout
    assert "asks the controller that leads. Of a file it prints the latest decision of every workload in it." in told
    assert "{NAMESPACE/NAME|KIND/NAME|FILE}" in told


@pytest.mark.parametrize("name", main.SUMMARIES)
def test_a_help_of_80_columns_cuts_off_no_word_and_gives_no_value_to_a_flag(name: str) -> None:
    told = run(main.app, [name, "--help"], env={"COLUMNS": "80"}).stdout
    words = set(told.split())
    for param in main.load(name).params:
        spoken = str(getattr(param, "help", "")).split()
        assert {*param.opts, *param.secondary_opts, *spoken} - {param.name} <= words, param.name
    assert "<bool>" not in told
    assert "[[" not in told


@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize(
    ("file", "code", "line"),
    [
        ("bad.csv", 2, "error: bad.csv: line 3: column 'arrival_s': 'x' is no number; give seconds\n"),
        ("lost", 1, "error: the lease was lost\n"),
        ("full", 1, "error: /var/lib/books: cannot be written (No space left on device); make room there\n"),
    ],
)
def test_an_error_of_ours_or_of_a_full_disk_is_one_line_and_an_exit_code(file: str, code: int, line: str) -> None:
    result = run(main.app, ["sample", file])
    assert (result.exit_code, result.stderr, result.stdout) == (code, line, "")


@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize(("words", "expected"), [("headroom sa", "sample"), ("headroom sample --ti", "--times")])
def test_the_shell_completes_names_and_options(words: str, expected: str) -> None:
    env = {"_HEADROOM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    result = run(main.app, [], prog_name="headroom", env=env)
    assert result.stdout.split() == [expected]
