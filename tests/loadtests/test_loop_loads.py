"""What comes to the plant of the closed loop: shapes by hand, renewals by their mean and spread, recorded traffic."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autoscaler.errors import InputError
from loadtests.loop.loads import Load, Pulses, Sine, arrivals, ramp, steady, step
from loadtests.loop.recorded import Instants, Rates


def test_shapes_are_what_their_names_say_in_each_second() -> None:
    assert steady(4.0).needs(3).tolist() == [4.0, 4.0, 4.0]
    assert step(1.0, 5.0, 2.0).needs(4).tolist() == [1.0, 1.0, 5.0, 5.0]
    assert ramp(0.0, 4.0, 1.0, 2.0).needs(4).tolist() == [0.0, 1.0, 3.0, 4.0]
    assert Pulses(1.0, 9.0, 4.0, 2.0, 1.0).needs(7).tolist() == [1.0, 9.0, 9.0, 1.0, 1.0, 9.0, 9.0]
    wave = Sine(2.0, 8.0, 3600.0).needs(3600)
    assert (wave.mean(), wave.min(), wave.max()) == pytest.approx((5.0, 2.0, 8.0), abs=0.01)
    assert wave[900] == wave.max()


def test_a_need_of_four_keeps_four_replicas_busy() -> None:
    """Of 8 slots and requests of 2 s that is 16 a second: 57,600 in an hour, give or take 960 (four deviations)."""
    came = Load(steady(4.0), 2.0).requests(3600, 8, seed=5)
    assert 56_640 <= came.at_s.size <= 58_560
    assert came.stay_s.sum() / 8 / 3600 == pytest.approx(4.0, rel=0.02)
    assert (np.diff(came.at_s) >= 0.0).all()
    assert 0.0 <= came.at_s[0] <= came.at_s[-1] <= 3600.0


@pytest.mark.parametrize("cv", [0.3, 1.0, 4.0])
def test_gaps_have_the_spread_that_is_asked_for(cv: float) -> None:
    gaps = np.diff(arrivals(np.random.default_rng(1), np.full(20_000, 2.0), 1.0, cv))
    assert gaps.mean() == pytest.approx(0.5, rel=0.05 * max(1.0, cv))
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.08)


def test_runs_do_not_all_begin_with_a_whole_gap() -> None:
    """One each 100 s, nearly even: the first comes after 50 s on average of 400 seeds, not after 100."""
    rates = np.full(1000, 0.01)
    first_s = [arrivals(np.random.default_rng(seed), rates, 1.0, 0.3)[0] for seed in range(400)]
    assert 45.0 <= np.mean(first_s) <= 55.0


def test_a_step_of_five_times_has_five_times_as_many() -> None:
    came = Load(step(2.0, 10.0, 1000.0), 2.0).requests(2000, 8, seed=2)
    before = int((came.at_s < 1000.0).sum())
    assert (came.at_s.size - before) / before == pytest.approx(5.0, rel=0.06)


def test_one_seed_draws_the_same_and_another_spread_of_stays_leaves_the_instants() -> None:
    load = Load(steady(4.0), 2.0)
    first, again, other = (load.requests(600, 8, seed) for seed in (7, 7, 8))
    assert (first.at_s.tolist(), first.stay_s.tolist()) == (again.at_s.tolist(), again.stay_s.tolist())
    assert first.at_s.tolist() != other.at_s.tolist()
    assert replace(load, stay_cv=0.0).requests(600, 8, 7).at_s.tolist() == first.at_s.tolist()


def write(path: Path, *lines: str) -> Path:
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")
    return path


def test_rates_of_a_model_are_scaled_to_the_need_and_keep_their_windows(tmp_path: Path) -> None:
    """From the second hour on: two tenants in the first window, one with three times as many as both in the second."""
    path = write(
        tmp_path / "rates.csv.gz", "window_s,model,tenant,requests,rate_rps,cv,dist,shape,scale",
        "0,m,a,500,0,1,Gamma,1,1", "3600,m,a,10,0,0.5,Gamma,1,1", "3600,m,b,30,0,1.5,Gamma,1,1",
        "4200,m,a,120,0,1.0,Gamma,1,1", "4200,other,c,7,0,1,Gamma,1,1",
    )  # fmt: skip
    came = Rates(path, "m", from_h=1.0, need=4.0, stay_s=2.0).requests(1200, 8, seed=0)
    first = int((came.at_s < 600.0).sum())
    assert came.at_s.size == pytest.approx(4.0 * 8 / 2.0 * 1200, rel=0.03)
    assert first / came.at_s.size == pytest.approx(0.25, abs=0.02)
    with pytest.raises(InputError, match="no requests of model 'x' from hour 1"):
        Rates(path, "x", 1.0, 4.0, 2.0).requests(1200, 8, 0)


def test_a_tenants_gaps_have_the_mean_of_its_published_spreads(tmp_path: Path) -> None:
    """300 requests at 0.4 and 100 at 0.8: 0.5."""
    rows = ("0,m,a,300,0.4", "600,m,a,100,0.8")
    path = write(tmp_path / "rates.csv.gz", "window_s,model,tenant,requests,cv", *rows)
    gaps = np.diff(Rates(path, "m", from_h=0.0, need=20.0, stay_s=2.0).requests(600, 8, seed=0).at_s)
    assert gaps.std() / gaps.mean() == pytest.approx(0.4, rel=0.05), "one window: its own"
    at_s = Rates(path, "m", from_h=0.0, need=20.0, stay_s=2.0).requests(1200, 8, seed=0).at_s
    gaps = np.diff(at_s[at_s < 600.0])
    assert gaps.std() / gaps.mean() == pytest.approx(0.5, rel=0.05)


def test_recorded_instants_stay_as_long_as_their_tokens_take(tmp_path: Path) -> None:
    """2,000 tokens of prompt at 10,000 a second and 30 of output at 30 ms: 1.1 s."""
    path = write(
        tmp_path / "code.csv.gz", "arrival_s,model,tenant,prompt_tokens,output_tokens",
        "0.5,m,,2000,30", "0.25,m,,0,0", "99,m,,1,1",
    )  # fmt: skip
    came = Instants(path).requests(60, 1, seed=0)
    assert came.at_s.tolist() == [0.25, 0.5]
    assert came.stay_s.tolist() == pytest.approx([0.001, 1.1])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("arrival_s,prompt_tokens", "1,2"), "no column output_tokens; it has arrival_s, prompt_tokens"),
        (("arrival_s,prompt_tokens,output_tokens", "1,2,3", "2,x,3"), "line 3: prompt_tokens is 'x'"),
        (("arrival_s,prompt_tokens,output_tokens", "1,-2,3"), "line 2: prompt_tokens is '-2'"),
        (("arrival_s,prompt_tokens,output_tokens", "nan,2,3"), "line 2: arrival_s is 'nan'"),
        (("arrival_s,prompt_tokens,output_tokens", "1,2"), "line 2: output_tokens is None"),
        (("arrival_s,prompt_tokens,output_tokens",), "it holds no requests"),
    ],
)
def test_what_cannot_be_read_is_named_by_file_line_and_column(
    lines: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "bad.csv.gz", *lines)
    with pytest.raises(InputError, match=r"bad\.csv\.gz") as told:
        Instants(path).requests(60, 1, 0)
    assert words in str(told.value)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv.gz"
    path.write_text("arrival_s\n1\n")
    with pytest.raises(InputError, match=r"plain.csv.gz: cannot be read as gzipped CSV"):
        Instants(path).requests(60, 1, 0)
