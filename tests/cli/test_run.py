"""`headroom run`: settings that cannot be used end it at once, with the field and the remedy."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app

run = CliRunner().invoke


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lease: {duration_s: 5, deadline_s: 7}", "deadline_s 7 is not below duration_s 5; lower the deadline"),
        ("kindz: []", "kindz: unknown field; did you mean kinds?"),
        ("[1, 2]", "give a map of settings in YAML"),
        ("kube: {kubeconfig: /none/kubeconfig}", "/none/kubeconfig"),
    ],
    ids=["fields that contradict", "an unknown field", "no map", "a kubeconfig that is not there"],
)
def test_settings_that_cannot_be_used_end_it_with_code_2(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    result = run(app, ["run", "--config", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert words in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run(app, ["run", "--config", str(tmp_path / "none.yaml")])
    assert result.exit_code == 2
    assert "none.yaml: cannot be read" in result.stderr
