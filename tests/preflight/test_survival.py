"""Kaplan-Meier: published data by hand, no censoring, all censored, and what it refuses to say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.preflight.survival import kaplan_meier

# Remission times in weeks under 6-MP, negative ones censored (Freireich et al., Blood 21, 1963), and the estimate by
# hand: 18/21 at week 6, times 16/17 at 7, 14/15 at 10, 11/12 at 13, 10/11 at 16, 6/7 at 22 and 5/6 at 23.
WEEKS = [6, 6, 6, -6, 7, -9, 10, -10, -11, 13, 16, -17, -19, -20, 22, 23, -25, -32, -32, -34, -35]
TABLE = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}


def curve(times: list[int]):
    lengths = np.array(times, dtype=np.float64)
    return kaplan_meier(np.abs(lengths), lengths < 0)


def test_published_data_give_what_a_hand_gives() -> None:
    found = curve(WEEKS)
    assert dict(zip(found.after_s.tolist(), found.share.round(3).tolist(), strict=True)) == pytest.approx(
        TABLE, abs=6e-4
    )
    assert (found.episodes, found.ended, found.longest_s) == (21, 9, 35.0)


def test_the_interval_is_greenwood_s_on_the_log_log_scale() -> None:
    # At 6 weeks: S = 6/7, variance of log S by Greenwood 3/(21*18) = 1/126, standard error of log(-log S) =
    # sqrt(1/126)/0.15415 = 0.5779; 0.857**exp(+-1.6449*0.5779) = 0.671 and 0.942.
    _, low, high = curve(WEEKS).at(6.0) or (0, 0, 0)
    assert (low, high) == pytest.approx((0.671, 0.942), abs=1e-3)


def test_without_cut_episodes_it_is_the_share_that_is_longer() -> None:
    found = curve([1, 2, 3, 4])
    assert [found.at(age) for age in (0.5, 1.0, 2.5, 4.0)] == [
        (1.0, 1.0, 1.0),
        # Standard errors of log(-log S): sqrt(1/12)/0.2877 = 1.0035 and sqrt(1/12 + 1/6)/0.6931 = 0.7213.
        (0.75, pytest.approx(0.2234, abs=1e-4), pytest.approx(0.9463, abs=1e-4)),
        (0.5, pytest.approx(0.1033, abs=1e-4), pytest.approx(0.8093, abs=1e-4)),
        (0.0, 0.0, 0.0),
    ]


def test_beyond_the_longest_cut_episode_nothing_is_said() -> None:
    found = curve([1, 2, -5])
    assert found.at(4.0) is not None
    assert found.at(6.0) is None


def test_episodes_that_were_all_cut_say_only_that_they_went_on() -> None:
    found = curve([-5, -9])
    assert found.ended == 0
    assert found.at(4.0) == (1.0, 1.0, 1.0)
    assert found.at(10.0) is None


episodes = st.lists(st.tuples(st.integers(1, 50), st.booleans()), min_size=1, max_size=40)


@given(episodes)
def test_a_survival_curve_falls_within_its_interval_and_never_below_what_ended(pairs: list[tuple[int, bool]]) -> None:
    lengths = np.array([float(length) for length, _ in pairs])
    cut = np.array([was_cut for _, was_cut in pairs])
    found = kaplan_meier(lengths, cut)
    assert (np.diff(found.share) <= 1e-12).all()
    assert ((found.low <= found.share + 1e-12) & (found.share <= found.high + 1e-12)).all()
    for after_s, share in zip(found.after_s, found.share, strict=True):
        ended = ((lengths <= after_s) & ~cut).mean()
        assert share <= 1 - ended + 1e-12, "taking cut episodes out of those at risk can only lower the curve"
        assert share >= ((lengths > after_s) & ~cut).mean() - 1e-12
