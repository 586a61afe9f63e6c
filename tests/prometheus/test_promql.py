"""Nothing from outside gets out of its quotes."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.adapters.prometheus.promql import any_of, parse_matchers, quoted, selector, written
from autoscaler.errors import InputError

STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
"""A string literal as PromQL's lexer reads it."""

NASTY = ['a"} or vector(1) #', "a\\", 'a\\"} or up{x="', "a\nb", "", "a|b", ".*", "a{2}", "ns',x='y", "\u2028\x00é"]
labels = st.sampled_from(["app", "_x1"])
texts = st.one_of(st.text(max_size=20), st.sampled_from(NASTY))


def around(query: str) -> str:
    """The query with every string taken out."""
    return STRING.sub("S", query)


@settings(deadline=None)
@given(texts.filter(bool), st.lists(texts, min_size=1, max_size=3))
def test_whatever_the_values_the_query_around_them_is_the_template(namespace: str, pods: list[str]) -> None:
    query = selector(["up"], ("namespace", namespace), ("pod", pods))
    assert around(query) == "{__name__=~S,namespace=S,pod=~S}"


@settings(deadline=None)
@given(texts)
def test_a_string_says_its_value_and_no_other(value: str) -> None:
    text = quoted(value)
    assert STRING.fullmatch(text)
    plain = re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text[1:-1], flags=re.DOTALL)
    assert plain == value


@settings(deadline=None)
@given(texts, texts)
def test_a_list_matches_its_members_whole_and_nothing_else(member: str, other: str) -> None:
    inner = re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), any_of([member])[1:-1], flags=re.DOTALL)
    assert re.fullmatch(inner, member)
    assert bool(re.fullmatch(inner, other)) is (member == other)


@pytest.mark.parametrize(("namespace", "pods"), [("", ["a"]), ("team", [])], ids=["no namespace", "no pods"])
def test_a_query_that_would_match_everybodys_series_is_refused(namespace: str, pods: list[str]) -> None:
    with pytest.raises(ValueError, match="belongs to nobody"):
        selector(["up"], ("namespace", namespace), ("pod", pods))


@pytest.mark.parametrize("name", ["up} or {x", "a-b", "", "1a", 'a"b'])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name"):
        selector([name], ("namespace", "n"), ("pod", ["p"]))
    with pytest.raises(ValueError, match="no name"):
        selector(["up"], (name, "n"), ("pod", ["p"]))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["app", "_x1"]), st.sampled_from(["=", "!=", "=~", "!~"]), texts), min_size=1)
)
def test_matchers_that_are_written_are_read_as_the_same(wanted: list[tuple[str, str, str]]) -> None:
    text = written(wanted)
    assert re.fullmatch(r"[a-z_0-9]+(=|!=|=~|!~)S(,[a-z_0-9]+(=|!=|=~|!~)S)*", around(text))
    assert list(parse_matchers(text)) == wanted


READ = {
    "single quotes": ("app = 'a\"b'", ("app", "=", 'a"b')),
    "raw quotes": (r"app=~`a\d`", ("app", "=~", r"a\d")),
    "braces in a value": ('app="a}{b"', ("app", "=", "a}{b")),
    "a comma at the end": ('app="a", ', ("app", "=", "a")),
    "an escaped quote": (r'app="a\"b"', ("app", "=", 'a"b')),
}


@pytest.mark.parametrize(("text", "meant"), READ.values(), ids=READ.keys())
def test_a_persons_matchers_are_read_as_promql_reads_them(text: str, meant: tuple[str, str, str]) -> None:
    assert parse_matchers(text) == (meant,)


@pytest.mark.parametrize(
    "text",
    ['app="a"} or vector(1) #', 'app="a" job="b"', "app=a", 'app="a', '{app="a"}', "", "  ", r'app="\d"', 'a-b="c"'],
)
def test_what_is_no_list_of_matchers_never_reaches_a_query(text: str) -> None:
    with pytest.raises(InputError, match="selector"):
        parse_matchers(text)
