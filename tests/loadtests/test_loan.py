"""The recorded run of a loan: what the page shows at its four moments, on a real control plane, in Chromium."""

import json
import re
from pathlib import Path

import pytest

from loadtests import loan
from loadtests.loan import Moment
from tests.real import parts


def test_a_record_is_told_moment_by_moment() -> None:
    found = (Moment("lent", 0.0, "h100: 16 units", "chat warm", "job/ns/train"),)
    assert list(loan.lines(found)) == [
        "lent, 0 s after the burst was ordered",
        "  GPUs: h100: 16 units",
        "  pool: chat warm",
        "  gang: job/ns/train",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--checkpoint", "0"], "--checkpoint: 0 is out of range; it must be 1..18"),
        (["--checkpoint", "30"], "--checkpoint: 30 is out of range; it must be 1..18"),
        (["--shots", "/nowhere"], "--shots: /nowhere is no empty folder; make one"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert loan.main(arguments) == 2
    assert capsys.readouterr().err == f"error: {words}\n"


def test_a_part_that_is_not_built_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parts, "missing", lambda _: "etcd is not built (python3 dev.py parts etcd)")
    assert loan.main([]) == 2
    assert "python3 dev.py parts etcd" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.needs("control-plane")
@pytest.mark.needs("chromium")
@pytest.mark.timeout(900)
def test_the_page_tells_who_lent_what_to_whom_why_it_is_called_back_and_that_the_gang_goes_on(tmp_path: Path) -> None:
    shots, path = tmp_path / "shots", tmp_path / "loan.json"
    shots.mkdir()
    assert loan.main(["--json", str(path), "--shots", str(shots)]) == 0
    lent, called, served, resumed = json.loads(path.read_text())["moments"]
    assert "8 units lent to job/" in lent["pool"]
    assert "back within 60 s of a recall" in lent["pool"]
    assert "16 lent to batch" in lent["owners"]
    assert "Lent 2" in lent["pool"]
    assert "8 of its units lent by WarmPool chat" in lent["gang"]

    assert "8 units called back from job/" in called["pool"]
    assert re.search(r"\d on loan, \d stay: demand may need \d within the 60 s", called["pool"]), "why"
    assert "it has 20 s to write its checkpoint, to be gone within" in called["pool"]
    assert "leaving" in called["gang"]
    assert "it has 20 s to write its checkpoint and end; 8 of its units lent by WarmPool chat" in called["gang"]

    assert "24 serving" in served["owners"]
    assert "Lent 0" in served["pool"]
    assert "waiting" in served["gang"]

    assert "running" in resumed["gang"]
    assert "it gave way once before" in resumed["gang"]
    assert "8 lent to batch" in resumed["owners"]
    assert lent["at_s"] <= called["at_s"] < served["at_s"] < resumed["at_s"]
    assert sorted(each.name for each in shots.iterdir()) == sorted(
        f"{number}-{name}-{view}.png"
        for number, name in enumerate(("lent", "called-back", "served", "resumed"), start=1)
        for view in ("light", "dark", "narrow")
    )
