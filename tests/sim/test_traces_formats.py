"""Each public format gives its requests, whatever its file is called."""

import importlib.util
import shlex
import sys

import pytest

from autoscaler.errors import InputError
from autoscaler.sim.traces import TraceSelection, read_selection, read_traffic
from tests.sim.trace_files import AZURE, BURSTGPT, MOONCAKE, NEUTRAL, SERVEGEN, write

LOGS = [
    pytest.param(AZURE, [0.0, 0.052, 2.5], [4808, 3180, 110], [10, 8, 27], id="Azure LLM"),
    pytest.param(BURSTGPT, [5, 45, 118], [472, 1087, 417], [18, 230, 0], id="BurstGPT"),
    pytest.param(NEUTRAL, [0.0, 4.314579, 4.541877], [374, 396, 879], [44, 109, 55], id="neutral"),
    pytest.param(MOONCAKE, [0.0, 3.0, 3.5], [6758, 7322, 7236], [500, 490, 794], id="Mooncake"),
]


@pytest.mark.parametrize(("text", "arrival_s", "prompt", "output"), LOGS)
def test_every_request_arrives_with_its_instant_and_tokens(tmp_path, text, arrival_s, prompt, output):
    load = read_traffic(write(tmp_path, text), seed=0)
    assert load.arrival_s is not None
    assert load.prompt_tokens is not None
    assert load.output_tokens is not None
    assert load.arrival_s.tolist() == pytest.approx(arrival_s)
    assert load.prompt_tokens.tolist() == prompt
    assert load.output_tokens.tolist() == output
    assert load.total == len(arrival_s)
    assert load.arrivals[int(arrival_s[-1])] >= 1
    assert load.seed is None


@pytest.mark.parametrize("name", ["azure.csv", "mooncake.jsonl.gz", "x.parquet", "noname", "y.csv.gz"])
def test_the_format_is_told_by_content_never_by_name(tmp_path, name):
    assert read_traffic(write(tmp_path, BURSTGPT, name), seed=0).total == 3


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("﻿" + NEUTRAL, id="a byte-order mark"),
        pytest.param(NEUTRAL.replace("\n", "\r\n"), id="line ends of Windows"),
        pytest.param(NEUTRAL + "\n\n", id="blank lines at the end"),
        pytest.param(NEUTRAL.rstrip("\n"), id="no line end at the end"),
    ],
)
def test_harmless_differences_of_files_are_accepted(tmp_path, text):
    assert read_traffic(write(tmp_path, text), seed=0).total == 3


def test_an_instant_with_the_mark_of_utc_is_accepted(tmp_path):
    text = AZURE.replace("9600,", "9600+00:00,")
    assert read_traffic(write(tmp_path, text), seed=0).total == 3


def test_a_named_model_or_client_is_picked_from_a_log(tmp_path):
    assert read_traffic(write(tmp_path, BURSTGPT), seed=0, model="ChatGPT").total == 2
    assert read_traffic(write(tmp_path, NEUTRAL), seed=0, tenant="a").total == 2


def test_several_models_of_one_log_are_one_load_and_the_source_says_so(tmp_path):
    load = read_traffic(write(tmp_path, BURSTGPT), seed=0)
    assert load.total == 3
    assert "2 models together: ChatGPT, GPT-4" in load.source


@pytest.mark.parametrize(
    ("selection", "named"),
    [
        pytest.param(TraceSelection(model="x"), "no model 'x'; it offers chat", id="a model that is not there"),
        pytest.param(TraceSelection(tenant="x"), "no tenant 'x'; it offers a, b", id="a client that is not there"),
        pytest.param(TraceSelection(day=1), "no day 1; it offers days 0 to 0", id="a day that is not there"),
        pytest.param(TraceSelection(day=0, days=2), "no day 1", id="more days than there are"),
    ],
)
def test_a_log_lists_what_it_offers(tmp_path, selection, named):
    with pytest.raises(InputError, match=named):
        read_selection(write(tmp_path, NEUTRAL), selection)


def test_a_format_without_models_says_so(tmp_path):
    with pytest.raises(InputError, match="its requests carry no model"):
        read_traffic(write(tmp_path, AZURE), seed=0, model="x")


def test_a_day_of_a_longer_log_starts_at_midnight(tmp_path):
    text = NEUTRAL + "86410.5,chat,a,1,1\n"
    load = read_traffic(write(tmp_path, text), seed=0, day=1)
    assert load.arrival_s is not None
    assert load.arrival_s.tolist() == [10.5]


def test_a_rate_scales_the_counts_of_a_recording(tmp_path):
    load = read_traffic(write(tmp_path, NEUTRAL), seed=0, mean_rps=50.0)
    assert load.mean_rps == pytest.approx(50.0)
    assert load.arrival_s is None


def test_instants_of_another_origin_are_refused_before_they_fill_the_memory(tmp_path):
    with pytest.raises(InputError, match="more than a year"):
        read_traffic(write(tmp_path, NEUTRAL + "1700000000,chat,a,1,1\n"), seed=0)


def test_a_rate_table_without_its_optional_columns_is_drawn(tmp_path):
    lean = "\n".join(",".join([*line.split(",")[:3], *line.split(",")[4:6]]) for line in SERVEGEN.splitlines())
    assert read_traffic(write(tmp_path, lean), seed=0).total > 1000


@pytest.mark.parametrize(
    ("present", "own", "words"),
    [
        pytest.param({"pip"}, False, "{python} -m pip install pyarrow", id="pip"),
        pytest.param(set(), True, "{uv} pip install --python {python} pyarrow", id="the uv of dev.py, and no pip"),
        pytest.param(set(), False, "uv pip install --python {python} pyarrow", id="neither"),
    ],
)
def test_how_to_get_pyarrow_fits_the_environment(tmp_path, monkeypatch, present, own, words):
    uv = tmp_path / ".tools" / "uv==1.2.3" / "bin" / "uv"
    if own:
        uv.parent.mkdir(parents=True)
        uv.touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in present else None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setenv("PATH", "")
    path = tmp_path / "a trace"
    path.write_bytes(b"PAR1" + bytes(16) + b"PAR1")
    with pytest.raises(InputError) as refused:
        read_traffic(path, seed=0)
    assert f"({words.format(uv=uv, python=sys.executable)})" in str(refused.value)
    told = str(refused.value).partition("or convert to CSV")[2]
    if not own:
        assert told == ""
        return
    command, python, given, code = shlex.split(told.removeprefix(": "))[0], *shlex.split(told)[-3:]
    assert (command, python, given) == (str(uv), "python", "-c")
    compile(code, "told", "exec")
    assert repr(str(path)) in code


def test_a_parquet_file_gives_what_csv_gives_or_asks_for_its_library(tmp_path):
    path = tmp_path / "trace"
    if importlib.util.find_spec("pyarrow") is None:
        path.write_bytes(b"PAR1" + bytes(16) + b"PAR1")
        with pytest.raises(InputError, match="needs pyarrow: install it"):
            read_traffic(path, seed=0)
        return
    pyarrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    header, *rows = (line.split(",") for line in NEUTRAL.splitlines())
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    numeric = ("arrival_s", "prompt_tokens", "output_tokens")
    stored = columns | {name: [float(text) for text in columns[name]] for name in numeric}
    parquet.write_table(pyarrow.table(stored), path)
    from_csv = read_traffic(write(tmp_path, NEUTRAL), seed=0)
    assert read_traffic(path, seed=0).arrivals.tolist() == from_csv.arrivals.tolist()
