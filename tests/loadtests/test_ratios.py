"""The ratios: what is kept on disk is exact and expires with its input, figures compare fairly, tables state losses."""

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.errors import InputError
from autoscaler.sim import simulate
from autoscaler.sim.bounds import reference
from autoscaler.sim.instance import Instance
from autoscaler.sim.rivals import RIVALS
from autoscaler.sim.score import GpuHours, Reference, Score, Settled
from autoscaler.sim.sweep import Frontier, Point, sweep
from loadtests import frozen, ratios
from loadtests.cases import Case, all_cases, chosen
from loadtests.figures import Record, figures
from loadtests.markdown import render
from tests.sim.scenes import make_spec, make_traffic


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "headroom-loadtests"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The policies that were really run, by name."""
    names: list[str] = []

    def counted(traffic, spec, policy):
        names.append(policy.name)
        return simulate.run(traffic, spec, policy)

    monkeypatch.setattr(frozen, "run", counted)
    return names


def instance(*, rate: float = 40.0, warmup_s: float = 30.0) -> Instance:
    return Instance(make_traffic([rate, rate, 2 * rate] * 100), make_spec(warmup_s=warmup_s), "given")


def test_what_was_kept_equals_what_is_computed(runs: list[str]):
    traffic, spec = instance().traffic, instance().spec
    first, second = frozen.frontier_of(instance(), "hpa"), frozen.frontier_of(instance(), "hpa")
    assert first == second == sweep(traffic, spec, ("hpa",))[0]
    assert len(runs) == len(RIVALS["hpa"].KNOBS)
    computed = reference(traffic, spec)
    for kept in (frozen.bounds_of(instance()), frozen.bounds_of(instance())):
        assert (kept.d1_s, kept.d2_s) == (computed.d1_s, computed.d2_s)
        assert kept.d2_per_step_s is not None
        assert computed.d2_per_step_s is not None
        assert kept.d2_per_step_s.tolist() == computed.d2_per_step_s.tolist()


@pytest.mark.parametrize("changed", [instance(rate=41.0), instance(warmup_s=31.0)], ids=["arrivals", "plant"])
def test_another_instance_runs_again(changed: Instance, runs: list[str]):
    frozen.frontier_of(instance(), "hpa")
    frozen.frontier_of(changed, "hpa")
    assert len(runs) == 2 * len(RIVALS["hpa"].KNOBS)


def test_a_setting_added_to_a_sweep_runs_alone(runs: list[str], monkeypatch: pytest.MonkeyPatch):
    before = frozen.frontier_of(instance(), "hpa")
    runs.clear()
    monkeypatch.setattr(RIVALS["hpa"], "KNOBS", (*RIVALS["hpa"].KNOBS, (9.0,)))
    after = frozen.frontier_of(instance(), "hpa")
    assert runs == ["hpa"]
    assert after.points[:-1] == before.points


def test_a_change_of_the_code_expires_what_was_kept(runs: list[str], monkeypatch: pytest.MonkeyPatch):
    frozen.frontier_of(instance(), "hpa")
    monkeypatch.setattr(frozen, "code_digest", lambda modules: "another")
    frozen.frontier_of(instance(), "hpa")
    assert len(runs) == 2 * len(RIVALS["hpa"].KNOBS)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ('"""Another text."""\n\nX = 1  # why\nKNOBS: int = 7\n', True),
        ('X = 2\nKNOBS: int = 3\n', False),
        ('X = 1\nY = 1\n', False),
    ],
    ids=["comments, layout and settings", "a constant", "a line more"],
)  # fmt: skip
def test_only_what_decides_a_result_counts_as_its_code(other: str, same: bool):
    assert (frozen.syntax('"""A text."""\nX = 1\nKNOBS: int = 3\n') == frozen.syntax(other)) is same


def test_a_rivals_code_includes_what_it_borrows_from_others():
    assert frozen.rival_modules("llm-d") == tuple(f"sim/rivals/{name}.py" for name in ("hpa", "kpa", "llm_d", "view"))
    assert frozen.rival_modules("static") == ("sim/rivals/static.py", "sim/rivals/view.py")


def scored(hours: float, attained: float, *, flips: float = 0.0, recovery_s: float | None = None) -> Score:
    whole = GpuHours(hours, 0.0, 0.0)
    return Score(
        "p", attained, whole, None, hours / 10.0, flips, 0.0, recovery_s, None, 0, Settled(attained, whole, None, 0.0)
    )


def frontiers(**hours: float) -> dict[str, Frontier]:
    named = {name.replace("_", "-"): value for name, value in hours.items()}
    flips = {"kpa": 2000.0}
    return {
        name: Frontier(name, (Point((1.0,), scored(value, 1.0, flips=flips.get(name, 0.0), recovery_s=90.0)),))
        for name, value in named.items()
    }


def record(ours: Score, kind: str = "day", *, onsets_s: tuple[float, ...] = ()) -> Record:
    case = Case(kind, "m", 1, "f.csv#day=1", None, 60.0, 0)  # type: ignore[arg-type]  # one of the three kinds
    plain = instance()
    placed = Instance(replace(plain.traffic, onsets_s=onsets_s), plain.spec, "given")
    swept = frontiers(static=30.0, hpa=20.0, kpa=15.0, perfect=11.0)
    return figures(case, placed, Reference(36_000.0, 36_000.0), swept, ours)


@pytest.mark.parametrize(
    ("ours", "closed"), [(scored(14.0, 0.995), 0.25), (scored(16.0, 1.0), -0.25), (scored(12.0, 0.98), None)],
    ids=["a quarter", "a loss", "not comparable below the goal"],
)  # fmt: skip
def test_the_gap_is_between_the_best_rival_and_perfect(ours: Score, closed: float | None):
    compared = record(ours)["compared"]
    assert isinstance(compared, dict)
    assert compared["best_rival"] == "kpa"
    assert compared["gap_closed"] == pytest.approx(closed)
    assert compared["best_rival_ratio_d2"] == pytest.approx(1.5)


def test_tables_state_losses_in_bold():
    won, lost = record(scored(12.0, 0.995, flips=20.0)), record(scored(16.0, 0.98, flips=900.0))
    text = render([won, lost])
    assert "| m | 1 | 60 s | 10.0 | kpa | 1.500 | 1.100 | 1.200 | 99.50% | 75% | 20 | 2000 |" in text
    assert "| 1.600 | **98.00%** | **–** | **900** | 2000 |" in text


def test_a_step_is_judged_on_its_settled_view_with_the_raw_figure_beside():
    text = render([record(scored(15.3, 0.9999, recovery_s=99.0), "named", onsets_s=(50.0,))])
    assert "| +2.0% | 99.99% | +2.0% | **1.65 warm-ups** | 1.50 warm-ups |" in text


def test_cheap_but_late_is_no_win():
    assert "| **90.00%** | **–** |" in render([record(scored(11.0, 0.9), "named")])


def test_on_off_traffic_is_measured_against_a_constant():
    text = render([record(scored(31.0, 0.96), "on-off"), record(scored(29.0, 0.96), "on-off")])
    assert "| **31.0** | 96.00% | 30.0 | 30.0 |" in text
    assert "| 29.0 | 96.00% | 30.0 | 30.0 |" in text


def test_cases_are_chosen_by_kind_label_and_warm_up():
    cases = all_cases(Path("data"), models=("m-small",), days=(1,), seed=0)
    assert {case.label for case in chosen(cases, "on-off", None)} == {"code-burst", "azure2023_code_h1"}
    assert [case.warmup_s for case in chosen(cases, "ramp", (60.0, 600.0))] == [60.0, 600.0]
    with pytest.raises(InputError, match="nope not known"):
        chosen(cases, "nope", None)


def test_the_command_measures_and_puts_its_table_into_a_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(ratios, "measure", lambda case, policy: record(scored(14.0, 0.995)) | {"kind": case.kind})
    readme = tmp_path / "README.md"
    readme.write_text("before\n{}\nformer table\n{}\nafter\n".format(*ratios.MARKS))
    arguments = ["--only", "m-small", "--days", "1", "--json", str(tmp_path / "r.json"), "--readme", str(readme)]
    assert ratios.main(arguments) == 0
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "former table" not in text
    assert text.count("| 25% |") == 3
    assert "seed 0" in text
    assert '"command": "python3 dev.py loadtests ratios' in (tmp_path / "r.json").read_text()
    assert capsys.readouterr().out.count("gap closed 0.250") == 3


@pytest.mark.parametrize(
    "arguments",
    [["--days", "x"], ["--only", "nope"], ["--json", "/nowhere/x.json"], ["--readme", "/nowhere/README.md"]],
    ids=lambda arguments: arguments[0],
)
def test_bad_arguments_are_refused_before_anything_runs(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert ratios.main(arguments) == 2
    assert capsys.readouterr().err.startswith("error: ")
