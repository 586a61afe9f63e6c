"""Rate tables become arrivals that keep each client's rate and burstiness, and say where data is missing."""

import numpy as np
import pytest

from autoscaler.errors import InputError
from autoscaler.sim.traces import TraceSelection, read_selection, read_traffic
from autoscaler.sim.traces.renewal import client_stream, renewal_arrivals, renewal_at_one_cv
from tests.sim.trace_files import SERVEGEN, write

WEEK = "window_s,model,tenant,rate_rps,cv\n" + "".join(
    f"{day * 86400},{model},{model}-c{client},1.0,1.0\n"
    for day in range(3)
    for model in ("m-large", "m-small")
    for client in range(2)
)
GAPS = "model,start_s,end_s\nm-small,90000,93600\n"


def renewals(rate_rps: float, cv: float, windows: int, seed: int = 5) -> np.ndarray:
    rates, cvs = np.full(windows, rate_rps), np.full(windows, cv)
    return renewal_arrivals(rates, cvs, window_s=600.0, stream=client_stream(seed, "c", 0.0))


@pytest.mark.parametrize("cv", [0.3, 1.0, 3.0, 8.0])
def test_intervals_keep_the_published_burstiness_and_rate(cv):
    arrival_s = renewals(20.0, cv, windows=20)
    intervals = np.diff(arrival_s)
    assert intervals.std() / intervals.mean() == pytest.approx(cv, rel=0.05)
    assert arrival_s.size == pytest.approx(20.0 * 12_000, abs=4 * cv * np.sqrt(20.0 * 12_000))


@pytest.mark.parametrize(("published", "drawn"), [(0.05, 0.3), (166.0, 8.0)])
def test_burstiness_is_clipped_to_the_range_that_fits_support(published, drawn):
    assert renewals(20.0, published, windows=2).tolist() == renewals(20.0, drawn, windows=2).tolist()


def test_the_expected_count_holds_from_the_first_window_on():
    counts = [renewals(0.05, 8.0, windows=1, seed=seed).size for seed in range(2000)]
    assert np.mean(counts) == pytest.approx(0.05 * 600, rel=0.15)


def test_time_stands_still_in_windows_without_requests():
    rates, cvs = np.array([2.0, 0.0, 0.0, 2.0]), np.ones(4)
    arrival_s = renewal_arrivals(rates, cvs, window_s=600.0, stream=client_stream(1, "c", 0.0))
    inside = (arrival_s >= 600) & (arrival_s < 1800)
    assert not inside.any()
    assert (arrival_s >= 1800).any()


def test_an_interval_longer_than_windows_spans_them():
    rates, cvs = np.full(1000, 0.001), np.full(1000, 0.3)
    arrival_s = renewal_arrivals(rates, cvs, window_s=600.0, stream=client_stream(1, "c", 0.0))
    assert arrival_s.size == pytest.approx(600, rel=0.05)
    assert np.diff(arrival_s).std() / np.diff(arrival_s).mean() == pytest.approx(0.3, rel=0.1)


def test_what_comes_later_changes_nothing_before():
    cvs = np.ones(3)
    first, second = (
        renewal_arrivals(np.array([1.0, 2.0, last]), cvs, window_s=600.0, stream=client_stream(1, "c", 0.0))
        for last in (0.5, 9.0)
    )
    assert first[first < 1200].tolist() == second[second < 1200].tolist()


def test_the_quick_draw_for_one_cv_follows_the_rate():
    rates = np.repeat([0.0, 10.0, 40.0], 1000)
    arrival_s = renewal_at_one_cv(rates, 1.5, window_s=1.0, stream=client_stream(1, "c", 0.0))
    counts = np.histogram(arrival_s, bins=[0, 1000, 2000, 3000])[0]
    assert counts[0] == 0
    assert counts[1:] == pytest.approx([10_000, 40_000], rel=0.05)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    path = write(tmp_path, SERVEGEN)
    first, again, other = (read_traffic(path, seed=seed).arrivals.tobytes() for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_each_client_draws_from_its_own_stream(tmp_path):
    path = write(tmp_path, SERVEGEN)
    together = read_traffic(path, seed=1).arrivals
    apart = [read_traffic(path, seed=1, tenant=tenant).arrivals for tenant in ("c0", "c1")]
    assert np.array_equal(together, apart[0] + apart[1])


def test_the_order_of_rows_among_clients_does_not_matter(tmp_path):
    header, *rows = SERVEGEN.splitlines()
    swapped = "\n".join([header, rows[1], rows[0], rows[2]])
    first = read_traffic(write(tmp_path, SERVEGEN), seed=1).arrivals
    assert np.array_equal(first, read_traffic(write(tmp_path, swapped, "b.csv"), seed=1).arrivals)


def test_scaling_raises_the_rate_and_keeps_the_clients_burstiness(tmp_path):
    load = read_traffic(write(tmp_path, SERVEGEN), seed=1, tenant="c1", mean_rps=200.0, with_requests=True)
    # All of client c1's requests fall in the first of the two windows, so its rate there is twice the mean.
    assert load.arrivals[:600].mean() == pytest.approx(400.0, rel=0.05)
    assert load.mean_rps == pytest.approx(200.0, rel=0.05)
    assert load.arrival_s is not None
    intervals = np.diff(load.arrival_s)
    assert intervals.std() / intervals.mean() == pytest.approx(3.0, rel=0.05)


def test_a_table_that_ends_within_a_day_ends_the_traffic_there(tmp_path):
    assert read_traffic(write(tmp_path, SERVEGEN), seed=1, day=0).duration_s == 1200


def test_requests_agree_with_the_counts_and_the_seed_is_held(tmp_path):
    load = read_traffic(write(tmp_path, SERVEGEN), seed=4, with_requests=True)
    counts = read_traffic(write(tmp_path, SERVEGEN), seed=4)
    assert load.arrival_s is not None
    assert load.arrival_s.size == load.total
    assert np.array_equal(load.arrivals, counts.arrivals)
    assert (load.seed, load.prompt_tokens, counts.arrival_s) == (4, None, None)


def test_lengths_follow_the_token_table_beside_the_file(tmp_path):
    percentiles = "p1,p5,p10,p25,p50,p75,p90,p95,p99,max"
    rows = "0,m,c0,input_tokens,100," + ",".join(["100"] * 10) + "\n0,m,c0,output_tokens,7," + ",".join(["7"] * 10)
    write(tmp_path, f"block_s,model,tenant,field,mean,{percentiles}\n{rows}\n", "servegen_tokens_x.csv.gz")
    load = read_traffic(write(tmp_path, SERVEGEN, "servegen_rates_x.csv"), seed=4, with_requests=True)
    assert load.prompt_tokens is not None
    assert load.output_tokens is not None
    assert set(load.prompt_tokens) == {100.0}
    assert set(load.output_tokens) == {7.0}


def test_every_request_keeps_its_own_clients_length_when_clients_are_merged(tmp_path):
    percentiles = "p1,p5,p10,p25,p50,p75,p90,p95,p99,max"
    rows = [
        f"0,m,{client},{field}," + ",".join([str(tokens)] * 10)
        for client, tokens in (("c0", 100), ("c1", 900))
        for field in ("input_tokens", "output_tokens")
    ]
    table = "\n".join([f"block_s,model,tenant,field,{percentiles}", *rows])
    write(tmp_path, table + "\n", "servegen_tokens_x.csv.gz")
    path = write(tmp_path, SERVEGEN, "servegen_rates_x.csv")
    together, alone = (read_traffic(path, seed=4, tenant=tenant, with_requests=True) for tenant in (None, "c1"))
    assert together.arrival_s is not None
    assert together.prompt_tokens is not None
    assert alone.arrival_s is not None
    assert together.arrival_s[together.prompt_tokens == 900].tolist() == alone.arrival_s.tolist()


@pytest.mark.parametrize(
    ("selection", "named"),
    [
        pytest.param(TraceSelection(), "which model.*m-large, m-small over days 0 to 2", id="no model named"),
        pytest.param(TraceSelection(model="m-small"), "which day of m-small.* 0, 1, 2", id="no day named"),
        pytest.param(TraceSelection(model="m-mid", day=0), "no model 'm-mid'; it offers m-large", id="another model"),
        pytest.param(
            TraceSelection(model="m-small", day=3), "no day 3 of m-small; it offers 0, 1, 2", id="another day"
        ),
        pytest.param(TraceSelection(model="m-small", day=2, days=2), "no day 3", id="one day too many"),
        pytest.param(
            TraceSelection(model="m-small", day=0, tenant="x"),
            "no tenant 'x'.*m-small-c0, m-small-c1",
            id="no such client",
        ),
    ],
)
def test_an_open_choice_lists_what_the_file_offers(tmp_path, selection, named):
    with pytest.raises(InputError, match=named):
        read_selection(write(tmp_path, WEEK), selection)


def test_several_days_are_drawn_as_one_span(tmp_path):
    load = read_selection(write(tmp_path, WEEK), TraceSelection(model="m-small", day=1, days=2))
    assert load.duration_s == 86_400 + 600
    assert load.arrivals[:600].sum() > 0
    assert load.arrivals[86_400:87_000].sum() > 0


@pytest.mark.parametrize("name", ["servegen_gaps_x.csv", "servegen_gaps_x.csv.gz"])
def test_a_day_with_missing_data_is_refused_by_name(tmp_path, name):
    path = write(tmp_path, WEEK, "servegen_rates_x.csv.gz")
    write(tmp_path, GAPS, name)
    with pytest.raises(InputError, match=rf"day 1 of m-small lacks data in \[90000, 93600\) s .{name}, line 2"):
        read_traffic(path, seed=0, model="m-small", day=1)
    assert read_traffic(path, seed=0, model="m-small", day=0).total > 0
    assert read_traffic(path, seed=0, model="m-large", day=1).total > 0


@pytest.mark.needs("shared-data")
@pytest.mark.parametrize("model", ["m-small", pytest.param("m-large", marks=pytest.mark.slow)])
def test_a_whole_published_day_keeps_the_asked_mean(shared_data, model):
    path = shared_data / "inference" / "servegen_rates_week1.csv.gz"
    load = read_traffic(path, seed=7, model=model, day=2, mean_rps=200.0)
    assert load.duration_s == 86_400
    assert load.mean_rps == pytest.approx(200.0, rel=0.005)
    assert 1.2 < load.peak_minute_rps / load.mean_rps < 3.0


@pytest.mark.needs("shared-data")
def test_the_published_gaps_of_m_mid_are_refused(shared_data):
    with pytest.raises(InputError, match="day 3 of m-mid lacks data"):
        read_traffic(shared_data / "inference" / "servegen_rates_week1.csv.gz", seed=0, model="m-mid", day=3)


@pytest.mark.needs("shared-data")
@pytest.mark.parametrize(
    ("name", "requests"),
    [("azure2023_code_h1.csv.gz", 5353), ("azure2023_conv.csv.gz", 19_366), ("mooncake_synthetic.csv.gz", 3993)],
)
def test_every_row_of_a_published_recording_is_read(shared_data, name, requests):
    assert read_traffic(shared_data / "inference" / name, seed=0).total == requests
