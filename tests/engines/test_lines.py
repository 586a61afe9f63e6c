"""The line filter agrees with the library's parser on every page the library can read."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from autoscaler.adapters.engines.lines import LineFilter

NAMES = ["m", "m_total", "mm", "m:m", "m_bucket", "m_sum", "m_count", "vllm:num_requests_waiting", "other"]
WANTED = ["m", "m_total", "m:m", "m_bucket", "m_sum", "m_count", "vllm:num_requests_waiting"]

values = st.one_of(
    st.integers(0, 10**18).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.sampled_from(["+Inf", "-Inf", "Inf", "NaN", "1e3", "1.5E-7", "+4", "-2", "0.5", ".5", "7."]),
)
label_values = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12),
    st.text(alphabet='\\"{}=, nm\n#\t', max_size=10),
)
label_names = st.sampled_from(["le", "model_name", "reason", "engine", "_x", "m"])
blanks = st.sampled_from(["", " ", "  ", "\t"])


@st.composite
def samples(draw) -> str:
    labels = draw(st.dictionaries(label_names, label_values, max_size=3))
    escaped = {k: v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for k, v in labels.items()}
    gap = draw(st.sampled_from(["", " "]))
    inner = f",{gap}".join(f'{gap}{k}{gap}={gap}"{v}"{gap}' for k, v in escaped.items())
    block = draw(st.sampled_from(["", " "])) + "{" + inner + draw(st.sampled_from(["", ","] if inner else [""])) + "}"
    head = draw(blanks) + draw(st.sampled_from(NAMES))
    head += block + draw(blanks) if labels or draw(st.booleans()) else draw(st.sampled_from([" ", "  "]))
    end = draw(st.sampled_from(["", " 1712345678000", "  17", " "]))
    return f"{head}{draw(values)}{end}"


comments = st.sampled_from([
    "# TYPE m gauge", "# TYPE m_total counter", "# TYPE m histogram", "# HELP m A \\n text with m 3 in it.",
    "# m 7", "#", "", "   ", "# HELP other Who knows.", "# TYPE vllm:num_requests_waiting gauge", "# EOF",
])  # fmt: skip


@st.composite
def pages(draw) -> str:
    lines = draw(st.lists(st.one_of(samples(), samples(), comments), max_size=12))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return "".join(line + end for line in lines)


def plain(name: str, labels, value: float) -> tuple[str, tuple[tuple[str, str], ...], str]:
    return name, tuple(sorted(labels.items())), repr(float(value))


def reference(page: str) -> list[tuple[str, tuple[tuple[str, str], ...], str]]:
    families = text_string_to_metric_families(page)
    return sorted(plain(s.name, s.labels, s.value) for f in families for s in f.samples if s.name in WANTED)


@settings(max_examples=150, deadline=None)
@given(pages())
def test_the_filter_reads_what_the_library_reads(page: str) -> None:
    assert sorted(plain(*sample) for sample in LineFilter(WANTED).samples(page.encode())) == reference(page)


@settings(deadline=None)
@given(pages(), st.integers(0, 400))
def test_a_page_cut_off_anywhere_yields_no_line_that_is_not_on_the_whole_page(page: str, at: int) -> None:
    whole = [plain(*sample) for sample in LineFilter(WANTED).samples(page.encode())]
    part = [plain(*sample) for sample in LineFilter(WANTED).samples(page.encode()[:at])]
    for sample in set(part):
        assert part.count(sample) <= whole.count(sample)


@settings(deadline=None)
@given(st.one_of(st.binary(), st.text(alphabet='m_total{}",=\\ \n\r\t019.#', max_size=80).map(str.encode)))
def test_no_bytes_whatever_raise(page: bytes) -> None:
    assert {name for name, _, _ in LineFilter(WANTED).samples(page)} <= set(WANTED)


CUT = {
    "within the value": b"m 1\nm_total 5\nm_total 17",
    "within the labels": b'm 1\nm_total{a="b"} 5\nm_total{a="',
    "within the name": b"m 1\nm_total 5\nm_tot",
    "before the value": b"m 1\nm_total 5\nm_total ",
}


@pytest.mark.parametrize("page", CUT.values(), ids=CUT.keys())
def test_a_line_cut_off_takes_the_other_lines_of_its_name_along(page: bytes) -> None:
    names = [name for name, _, _ in LineFilter(["m", "m_total"]).samples(page)]
    assert names == ["m"]


def test_a_comment_cut_off_takes_nothing_along() -> None:
    assert [value for _, _, value in LineFilter(["m"]).samples(b"m 1\n# HEL")] == [1.0]


UNREADABLE = {
    "not a number": b"m one\n",
    "no number": b"m\n",
    "blank": b"m \n",
    "underscores, which Python would read": b"m 1_000\n",
    "labels that do not end": b'm{a="b 3\n',
    "labels without a value": b"m{a} 3\n",
    "a label twice": b'm{a="1",a="2"} 3\n',
    "a longer name": b"mm 3\n",
    "a name in a comment": b"# m 3\n",
}


@pytest.mark.parametrize("page", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_not_there(page: bytes) -> None:
    assert list(LineFilter(["m"]).samples(page)) == []
    assert [value for _, _, value in LineFilter(["m"]).samples(page + b"m 4\n")] == [4.0], "and harms no other line"


def test_infinity_and_not_a_number_are_told_apart_from_numbers_by_whoever_reads_them() -> None:
    read = [value for _, _, value in LineFilter(["m"]).samples(b"m +Inf\nm -Inf\nm NaN\n")]
    assert read[:2] == [math.inf, -math.inf]
    assert math.isnan(read[2])


def test_labels_too_long_to_remember_are_read_all_the_same() -> None:
    long = "x" * 5000
    ((_, labels, value),) = LineFilter(["m"]).samples(f'm{{a="{long}"}} 3\n'.encode())
    assert (labels["a"], value) == (long, 3.0)


def test_a_filter_without_names_finds_nothing() -> None:
    assert list(LineFilter([]).samples(b"m 3\n")) == []
