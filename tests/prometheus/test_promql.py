"""Nothing from outside gets out of its quotes."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.adapters.prometheus.promql import any_of, past_rate, quoted, selector

STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
"""A string literal as PromQL's lexer reads it."""

NASTY = ['a"} or vector(1) #', "a\\", 'a\\"} or up{x="', "a\nb", "", "a|b", ".*", "a{2}", "ns',x='y", "\u2028\x00é"]
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
    with pytest.raises(ValueError, match="no name"):
        past_rate(name, "team/chat", "Deployment", window_s=60)


def test_the_past_of_a_deployment_is_that_of_all_its_pods_and_of_no_other_workload() -> None:
    query = past_rate("vllm:request_success_total", "team/chat.v2", "Deployment", window_s=120)
    assert around(query) == "sum(rate(vllm:request_success_total{namespace=S,pod=~S}[120s]))"
    regex = re.findall(STRING, query)[1][1:-1].replace("\\\\", "\\")
    assert re.fullmatch(regex, "chat.v2-7d4b9c6f58-x2x9q")
    for other in ("chat.v2-big-7d4b9c6f58-x2x9q", "chatXv2-7d4b9c6f58-x2x9q", "chat.v2-0"):
        assert not re.fullmatch(regex, other), other


def test_a_kind_whose_pod_names_are_not_known_has_no_past() -> None:
    with pytest.raises(KeyError):
        past_rate("up", "team/chat", "Rollout", window_s=60)
    with pytest.raises(ValueError, match="namespace/name"):
        past_rate("up", "chat", "Deployment", window_s=60)
