"""A trace that cannot be used is refused whole, with file, line and field in the message."""

import gzip

import pytest

from autoscaler.errors import InputError
from autoscaler.sim.traces import read_traffic
from tests.sim.trace_files import AZURE, BURSTGPT, MOONCAKE, NEUTRAL, SERVEGEN, edited, write

FAULTS = [
    pytest.param("", "line 1: the file is empty", id="an empty file"),
    pytest.param("\n\n", "line 1: the file is empty", id="nothing but line ends"),
    pytest.param("\ufeff", "line 1: the file is empty", id="nothing but a byte-order mark"),
    pytest.param(NEUTRAL.splitlines()[0], "line 2: no row follows", id="a header alone"),
    pytest.param(
        edited(NEUTRAL, 1, "output_tokens", "output_token"),
        "line 1: unknown column 'output_token'",
        id="a misspelt column",
    ),
    pytest.param(
        edited(AZURE, 1, "ContextTokens", "Context"), "unknown column 'Context'", id="a misspelt Azure column"
    ),
    pytest.param(
        edited(NEUTRAL, 1, ",output_tokens", "").replace(",44", "").replace(",109", "").replace(",55", ""),
        "line 1: no column 'output_tokens'",
        id="a column missing",
    ),
    pytest.param(edited(NEUTRAL, 1, "tenant", "model"), "column 'model' stands twice", id="a column twice"),
    pytest.param(
        edited(NEUTRAL, 3, "396", "nan"), "line 3, field prompt_tokens: 'nan' is not finite", id="a NaN count"
    ),
    pytest.param(edited(NEUTRAL, 3, "4.314579", "nan"), "line 3, field arrival_s: 'nan'", id="a NaN instant"),
    pytest.param(edited(NEUTRAL, 3, "396", "inf"), "line 3, field prompt_tokens: 'inf'", id="an infinite count"),
    pytest.param(edited(NEUTRAL, 4, "4.541877", "1e999"), "line 4, field arrival_s: '1e999'", id="an overflow"),
    pytest.param(
        edited(NEUTRAL, 3, "109", "-109"), "line 3, field output_tokens: '-109' is negative", id="a negative count"
    ),
    pytest.param(
        edited(NEUTRAL, 2, "0.000000", "-1"), "line 2, field arrival_s: '-1' is negative", id="a negative instant"
    ),
    pytest.param(
        edited(NEUTRAL, 4, "4.541877", "4.2"), "line 4, field arrival_s: '4.2' goes backwards", id="time backwards"
    ),
    pytest.param(
        edited(AZURE, 4, "18:17:06", "18:17:02"), "line 4, field TIMESTAMP: .* goes backwards", id="dates backwards"
    ),
    pytest.param(
        edited(BURSTGPT, 4, "118", "44"), "line 4, field Timestamp: '44' goes backwards", id="seconds backwards"
    ),
    pytest.param(
        edited(NEUTRAL, 2, "374", "many"), "line 2, field prompt_tokens: 'many' is not a number", id="tokens as a word"
    ),
    pytest.param(edited(NEUTRAL, 2, "374", "374.5"), "field prompt_tokens: '374.5' is not whole", id="half a token"),
    pytest.param(edited(NEUTRAL, 2, "374", ""), "line 2, field prompt_tokens: '' is empty", id="no token count"),
    pytest.param(edited(BURSTGPT, 3, "1317", "x"), "line 3, field Total tokens: 'x'", id="a faulty column nobody uses"),
    pytest.param(
        edited(AZURE, 3, "2023-11-16", "16.11.2023"), "line 3, field TIMESTAMP: '16.11.2023", id="a German date"
    ),
    pytest.param(edited(AZURE, 3, "2023-11-16", "2023-13-16"), "line 3, field TIMESTAMP", id="a thirteenth month"),
    pytest.param(edited(AZURE, 3, ".0319600", ".03+02:00"), "line 3, field TIMESTAMP: .* UTC", id="another time zone"),
    pytest.param(edited(NEUTRAL, 4, ",55", ""), "line 4: 4 fields where the header has 5", id="a line cut off"),
    pytest.param("a,b,c\n1,2,3\n", "line 1: another format .columns 'a', 'b', 'c'", id="a CSV of another kind"),
    pytest.param(
        NEUTRAL.replace(",", ";"),
        "line 1: its columns are separated by semicolons, where a neutral request trace has "
        "arrival_s, model, .*, separated by commas",
        id="semicolons",
    ),
    pytest.param(AZURE.replace(",", "\t"), "line 1: its columns are separated by tabs, where an Azure", id="tabs"),
    pytest.param(
        edited(NEUTRAL, 1, NEUTRAL.splitlines()[0], NEUTRAL.splitlines()[0].upper()),
        "line 1: 'ARRIVAL_S' is written otherwise, where a neutral request trace has arrival_s, model",
        id="capital letters",
    ),
    pytest.param(
        edited(NEUTRAL, 1, "arrival_s,model,tenant", "ARRIVAL_S,MODEL,TENANT"),
        "line 1: 'ARRIVAL_S' is written otherwise",
        id="most in capital letters",
    ),
    pytest.param(
        edited(NEUTRAL, 1, NEUTRAL.splitlines()[0], NEUTRAL.splitlines()[0].upper()).replace(",", ";"),
        "separated by semicolons and 'ARRIVAL_S' is written otherwise",
        id="semicolons and capital letters",
    ),
    pytest.param(
        edited(NEUTRAL, 1, "tenant", " Tenant"), "unknown column ' Tenant'; .*: write 'tenant'", id="one capital letter"
    ),
    pytest.param(
        "a;b\n1;2\n",
        "another format .columns 'a', 'b', separated by semicolons where a trace has commas",
        id="semicolons between other names",
    ),
    pytest.param(
        edited(NEUTRAL, 2, "0.000000", "2026-01-31T02:14:30Z"),
        "line 2, field arrival_s: '2026.*Z' is not a number; it must be a number, 0 or more; it is a date: "
        "write the seconds since the first request",
        id="a date for seconds",
    ),
    pytest.param("<html>\n<body>\n", "line 1: another format", id="a page of HTML"),
    pytest.param("[1, 2]\n", "line 1: another format", id="a JSON array"),
    pytest.param('{"a": 1}\n', "line 1: no field 'timestamp'", id="JSON lines of another kind"),
    pytest.param(MOONCAKE + "{", "line 4: not JSON", id="JSON cut off"),
    pytest.param('{"timestamp": ' + "[" * 100_000, "line 1: not JSON", id="JSON in JSON without end"),
    pytest.param(MOONCAKE + "7", "line 4: a JSON int where an object", id="a JSON number"),
    pytest.param(
        edited(MOONCAKE, 2, "7322", '"7322"'), "line 2, field input_length: '7322'", id="a JSON text for a count"
    ),
    pytest.param(
        edited(MOONCAKE, 2, "7322", "true"), "line 2, field input_length: True", id="a JSON truth for a count"
    ),
    pytest.param(edited(MOONCAKE, 2, "7322", "NaN"), "line 2, field input_length: nan", id="a JSON NaN"),
    pytest.param(
        edited(MOONCAKE, 2, "7322", "1" * 400), "line 2, field input_length", id="a JSON number past all bounds"
    ),
    pytest.param(edited(MOONCAKE, 2, "490", "-490"), "line 2, field output_length: -490", id="a negative JSON count"),
    pytest.param(edited(MOONCAKE, 2, "490", "0.5"), "line 2, field output_length: 0.5", id="half a JSON token"),
    pytest.param(
        edited(MOONCAKE, 3, "3500", "2500"), "line 3, field timestamp: 2500.* backwards", id="JSON time backwards"
    ),
    pytest.param(edited(MOONCAKE, 2, "[0, 14]", "[0, 1.5]"), "line 2, field hash_ids", id="a hash that is no block"),
    pytest.param(
        edited(MOONCAKE, 2, '"hash_ids"', '"hashes"'), "line 2: no field 'hash_ids'", id="a misspelt JSON field"
    ),
    pytest.param(edited(MOONCAKE, 2, "{", '{"x": 1, '), "line 2: unknown field 'x'", id="an unknown JSON field"),
    pytest.param(
        edited(SERVEGEN, 3, "2.0", "-2.0"), "line 3, field rate_rps: '-2.0' is negative", id="a negative rate"
    ),
    pytest.param(edited(SERVEGEN, 3, "3.0", "nan"), "line 3, field cv: 'nan'", id="a NaN burstiness"),
    pytest.param(edited(SERVEGEN, 3, "1200", "1200.5"), "line 3, field requests", id="half a request"),
    pytest.param(
        edited(SERVEGEN, 4, "600,", "601,"), "line 4, field window_s: '601' is not a multiple", id="an odd window"
    ),
    pytest.param(edited(SERVEGEN, 4, "600,", "0,"), "line 4, field window_s: '0' stands twice", id="a window twice"),
    pytest.param(
        SERVEGEN + "0,m,c0,1,1,1,Gamma,1,1\n", "line 5, field window_s: '0' goes backwards", id="windows backwards"
    ),
    pytest.param(edited(SERVEGEN, 1, "cv", "cov"), "line 1: unknown column 'cov'", id="a misspelt rate column"),
    pytest.param(
        SERVEGEN.replace(",1.0,1.0,", ",0,1.0,").replace(",2.0,", ",0,"),
        "every rate .* is 0",
        id="rates of nothing but 0",
    ),
]


@pytest.mark.parametrize(("text", "named"), FAULTS)
def test_a_faulty_trace_is_refused_by_file_line_and_field(tmp_path, text, named):
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=rf"trace\.csv: .*{named}"):
        read_traffic(path, seed=0)


@pytest.mark.parametrize("text", [AZURE, BURSTGPT, NEUTRAL, MOONCAKE, SERVEGEN])
def test_a_truncated_gzip_is_refused_not_half_read(tmp_path, text):
    whole = gzip.compress(text.encode())
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(whole[: len(whole) - 10])
    with pytest.raises(InputError, match=r"trace.csv.gz: truncated or damaged gzip"):
        read_traffic(path, seed=0)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(gzip.compress(NEUTRAL.encode())[:-8] + bytes(8), id="a wrong checksum"),
        pytest.param(b"\x1f\x8b\x08\x00" + b"\xff" * 40, id="noise after the magic bytes"),
    ],
)
def test_a_damaged_gzip_is_refused(tmp_path, content):
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="truncated or damaged gzip"):
        read_traffic(path, seed=0)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        pytest.param(NEUTRAL.encode() + b"\xff\xfe", "line 5: not UTF-8 text", id="bytes that are no text"),
        pytest.param(NEUTRAL.encode() + b"\0", "line 5: a NUL byte", id="a NUL byte"),
        pytest.param(b"PAR1 and no more", "pyarrow|not a readable Parquet file", id="a Parquet file cut off"),
        pytest.param(b"\x89PNG\r\n\x1a\n\xff", "line 1: not UTF-8 text", id="a picture"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path, content, named):
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(InputError, match=named):
        read_traffic(path, seed=0)


def test_a_path_that_leads_nowhere_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"missing\.csv: cannot be read"):
        read_traffic(tmp_path / "missing.csv", seed=0)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_traffic(tmp_path, seed=0)
