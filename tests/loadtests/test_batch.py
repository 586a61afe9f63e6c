"""`loadtests batch`: a job list of one's own, figures as JSON, and errors that name the option or the line."""

import json

import pytest

from loadtests.batch import main
from tests.batch_sim.cases import PHILLY, QUOTA
from tests.sim.trace_files import edited, write


def test_a_job_list_of_ones_own_is_played_under_the_policies_asked_for(tmp_path, capsys):
    trace, quotas = write(tmp_path, PHILLY), write(tmp_path, QUOTA, "quotas.csv")
    out = tmp_path / "out.json"
    asked = ["--trace", str(trace), "--quotas", str(quotas), "--gpus", "20", "--policy", "headroom,easy"]
    assert main([*asked, "--json", str(out)]) == 0
    report = json.loads(out.read_text())
    (case,) = report["results"]["own"]
    assert [row["policy"] for row in case["policies"]] == ["headroom", "easy"]
    assert [row["completion_ratio"] for row in case["policies"]] == [1.0, 1.0]
    assert case["gpus"] == 20
    assert report["command"].endswith(f"--json {out}")
    assert "completion 1.00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--policy", "esay"], "--policy: 'esay' is not known", id="a policy that is none"),
        pytest.param(["--gpus", "0"], "--gpus: 0 cannot be used", id="no GPUs"),
        pytest.param(["--gpus", "8"], "job j1: 2 pods of 8 gpu have no room", id="a gang larger than the cluster"),
        pytest.param(["--day", "9"], "it has days 0 to 2", id="a day beyond the file"),
        pytest.param(["--days", "0"], "and 1 day or more", id="no days"),
        pytest.param(["--load", "0.5"], "leave out --trace or --load", id="a trace and a load"),
        pytest.param(["--overstate", "0.5"], "--overstate: 0.5 cannot be used", id="less than the truth"),
        pytest.param(["--seeds", "0"], "1 of them or more", id="no seed"),
        pytest.param(["--json", "/no/such/folder/out.json"], "cannot be written", id="no folder for the figures"),
        pytest.param(["--json", "-"], "-: this output cannot go to standard output", id="no file for the figures"),
        pytest.param(["--only", "helios"], "--only: changes nothing with --trace", id="a trace, and cases beside it"),
        pytest.param(["--quotas", "/no/such/file"], "/no/such/file: cannot be read", id="no quotas"),
    ],
)
def test_options_that_cannot_be_used_are_named(arguments, message, tmp_path, capsys):
    trace = write(tmp_path, PHILLY)
    assert main(["--trace", str(trace), *arguments]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert message in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--load", "0.5", "--gpus", "16"], "--gpus: changes nothing with --load"),
        (["--only", "kueue", "--policy", "easy"], "--policy: changes nothing with neither --trace nor --load"),
    ],
    ids=["the generator has a cluster", "the cases have their policies"],
)
def test_options_that_would_change_nothing_are_refused(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_faulty_line_and_an_unknown_case_are_named(tmp_path, capsys):
    assert main(["--trace", str(write(tmp_path, edited(PHILLY, 3, "86400", "x")))]) == 2
    assert "line 3, field submit_s: 'x'" in capsys.readouterr().err
    assert main(["--only", "packing,kubernetes"]) == 2
    assert "kubernetes not known; choose from generator" in capsys.readouterr().err
