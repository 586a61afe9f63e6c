"""Every engine's page becomes the same facts, under whichever of its names."""

from collections.abc import Mapping

import pytest

from autoscaler.adapters.engines.catalogue import LLM_D_EPP, PROFILES, SGLANG, TGI, TRITON, TRTLLM, VLLM
from autoscaler.adapters.engines.facts import MAX_SAMPLES, PageReader
from autoscaler.adapters.engines.profiles import Fact, Profile, Span, custom, selector
from autoscaler.errors import InputError
from tests.engines.pods import vllm


def read(profile: Profile, page: str, own: tuple[tuple[str, str], ...] = ()) -> dict[str, float]:
    return {fact.value: value for fact, value in PageReader(profile).facts(page.encode(), own).values.items()}


PAGES: dict[str, tuple[Profile, str, Mapping[str, float]]] = {
    "vLLM of today: only what waits for capacity counts as waiting": (
        VLLM,
        vllm(3, 5, 8, 0.5, deferred=2),
        {"waiting": 3, "waiting_deferred": 2, "running": 5, "requests_total": 8, "prompt_tokens_total": 800,
         "generation_tokens_total": 80, "kv_cache_usage": 0.5},
    ),
    "vLLM with deferred requests only: nothing waits for capacity": (
        VLLM, vllm(0, 5, deferred=7),
        {"waiting": 0, "waiting_deferred": 7, "running": 5, "requests_total": 0, "prompt_tokens_total": 0,
         "generation_tokens_total": 0, "kv_cache_usage": 0.2},
    ),
    "vLLM before the reasons and with the old name of the cache": (
        VLLM, "vllm:num_requests_waiting 4\nvllm:num_requests_running 2\nvllm:gpu_cache_usage_perc 0.7\n",
        {"waiting": 4, "running": 2, "kv_cache_usage": 0.7},
    ),
    "vLLM with both names of the cache: the new one": (
        VLLM, "vllm:gpu_cache_usage_perc 0.1\nvllm:kv_cache_usage_perc 0.7\nvllm:num_requests_running 1\n",
        {"running": 1, "kv_cache_usage": 0.7},
    ),
    "vLLM with two engines: counts add up, shares are averaged": (
        VLLM,
        ('vllm:num_requests_waiting{engine="0"} 1\nvllm:num_requests_waiting{engine="1"} 2\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.6\n'),
        {"waiting": 3, "kv_cache_usage": 0.4},
    ),
    "SGLang": (
        SGLANG,
        ('sglang:num_queue_reqs{model_name="m"} 3\nsglang:num_running_reqs{model_name="m"} 4\n'
        'sglang:token_usage{model_name="m"} 0.25\nsglang:num_requests_total{is_streaming="true"} 5\n'
        'sglang:num_requests_total{is_streaming="false"} 6\n'),
        {"waiting": 3, "running": 4, "kv_cache_usage": 0.25, "requests_total": 11},
    ),
    "SGLang with priorities: the total, not the total and its parts": (
        SGLANG,
        ('sglang:num_queue_reqs{priority=""} 5\nsglang:num_queue_reqs{priority="1"} 2\n'
        'sglang:num_queue_reqs{priority="9"} 3\n'),
        {"waiting": 5},
    ),
    "SGLang with priorities and no total: their sum": (
        SGLANG, 'sglang:num_queue_reqs{priority="1"} 2\nsglang:num_queue_reqs{priority="9"} 3\n', {"waiting": 5},
    ),
    "SGLang whose tensor ranks all report: one of them; data-parallel ranks add up": (
        SGLANG,
        ('sglang:num_queue_reqs{dp_rank="0",tp_rank="0"} 3\nsglang:num_queue_reqs{dp_rank="0",tp_rank="1"} 3\n'
        'sglang:num_queue_reqs{dp_rank="1",tp_rank="2"} 4\n'),
        {"waiting": 7},
    ),
    "TGI": (
        TGI,
        ("tgi_queue_size 3\ntgi_batch_current_size 8\ntgi_request_success 100\n"
        "tgi_request_input_length_sum 5000\ntgi_request_generated_tokens_sum 700\n"),
        {"waiting": 3, "running": 8, "requests_total": 100, "prompt_tokens_total": 5000,
         "generation_tokens_total": 700},
    ),
    "Triton with the TensorRT-LLM backend": (
        TRITON,
        ('nv_trt_llm_request_metrics{model="t",request_type="waiting",version="1"} 3\n'
        'nv_trt_llm_request_metrics{model="t",request_type="scheduled",version="1"} 4\n'
        'nv_trt_llm_request_metrics{model="t",request_type="max",version="1"} 512\n'
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="t"} 0.6\n'
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="t"} 7000\n'
        'nv_inference_request_success{model="t",version="1"} 900\nnv_inference_pending_request_count{model="t"} 99\n'),
        {"waiting": 3, "running": 4, "kv_cache_usage": 0.6, "requests_total": 900},
    ),
    "Triton before the batch manager told its queue": (
        TRITON,
        'nv_trt_llm_request_metrics{request_type="scheduled"} 4\nnv_inference_pending_request_count{model="t"} 9\n',
        {"waiting": 9, "running": 4},
    ),
    "trtllm-serve": (
        TRTLLM,
        ("trtllm_num_requests_waiting 1\ntrtllm_num_requests_running 2\ntrtllm_kv_cache_utilization 0.3\n"
        "trtllm_request_success_total 7\n"),
        {"waiting": 1, "running": 2, "kv_cache_usage": 0.3, "requests_total": 7},
    ),
    "llm-d's picker with both prefixes: the new one only": (
        LLM_D_EPP,
        ('llm_d_epp_flow_control_queue_size{fairness_id="a",priority="0"} 3\n'
        'llm_d_epp_flow_control_queue_size{fairness_id="b",priority="0"} 4\n'
        'inference_extension_flow_control_queue_size{fairness_id="a"} 7\n'
        'llm_d_epp_request_total{model_name="m"} 50\ninference_objective_request_total{model_name="m"} 50\n'
        'llm_d_epp_flow_control_requests_total{outcome="Dispatched"} 50\n'
        'llm_d_epp_flow_control_requests_total{outcome="RejectedCapacity"} 2\n'
        'llm_d_epp_flow_control_requests_total{outcome="EvictedTTL"} 1\n'),
        {"queued": 7, "dispatched_total": 50, "turned_away_total": 3},
    ),
    "llm-d's picker of last year": (
        LLM_D_EPP,
        "inference_extension_flow_control_queue_size 7\ninference_model_request_total 50\n",
        {"queued": 7, "dispatched_total": 50},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("profile", "page", "facts"), PAGES.values(), ids=PAGES.keys())
def test_a_page_becomes_facts(profile: Profile, page: str, facts: Mapping[str, float]) -> None:
    assert read(profile, page) == pytest.approx(facts)


def test_pools_of_one_name_in_two_namespaces_are_not_mixed() -> None:
    page = (
        'llm_d_epp_flow_control_queue_size{inference_pool="chat",namespace="red"} 3\n'
        'llm_d_epp_flow_control_queue_size{inference_pool="chat",namespace="blue"} 40\n'
        'llm_d_epp_flow_control_queue_size{inference_pool="other",namespace="red"} 500\n'
        'llm_d_epp_request_total{model_name="m"} 9\n'
    )
    own = (("inference_pool", "chat"), ("namespace", "red"))
    assert read(LLM_D_EPP, page, own) == {"queued": 3, "dispatched_total": 9}


IMPOSSIBLE = {
    "a cache used to 170 %": ("vllm:kv_cache_usage_perc 1.7\n", Fact.KV_USED),
    "a negative share": ("vllm:kv_cache_usage_perc -0.1\n", Fact.KV_USED),
    "a share that is no number": ("vllm:kv_cache_usage_perc NaN\n", Fact.KV_USED),
    "one impossible engine among good ones": (
        'vllm:kv_cache_usage_perc{engine="0"} 0.4\nvllm:kv_cache_usage_perc{engine="1"} 40\n', Fact.KV_USED,
    ),
    "a negative queue": ("vllm:num_requests_waiting -3\n", Fact.WAITING),
    "an endless queue": ("vllm:num_requests_waiting +Inf\n", Fact.WAITING),
    "a broken new name is not replaced by the old one": (
        "vllm:kv_cache_usage_perc NaN\nvllm:gpu_cache_usage_perc 0.5\n", Fact.KV_USED,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "fact"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_an_impossible_value_is_missing_and_counted_and_bends_nothing(lines: str, fact: Fact) -> None:
    facts = PageReader(VLLM).facts((lines + "vllm:num_requests_running 2\n").encode())
    assert facts.get(fact) is None
    assert facts.impossible == {fact}
    assert facts.get(Fact.RUNNING) == 2


def test_a_copied_rank_that_is_no_number_makes_the_fact_missing() -> None:
    page = b'sglang:num_queue_reqs{tp_rank="0"} 3\nsglang:num_queue_reqs{tp_rank="1"} NaN\n'
    assert PageReader(SGLANG).facts(page).impossible == {Fact.WAITING}


def test_a_page_of_too_many_lines_is_not_believed_in_part() -> None:
    page = b"vllm:num_requests_waiting 1\n" * (MAX_SAMPLES + 1)
    facts = PageReader(VLLM).facts(page)
    assert facts.values == {}
    assert Fact.WAITING in facts.impossible


def test_an_administrators_own_names_with_labels_and_percent() -> None:
    profile = custom(
        "mine",
        {
            "waiting": 'my_requests{state="queued"}',
            "running": 'my_requests{state="busy", tier = "gpu"}',
            "kv_cache_usage": "my_cache_percent",
            "queue_s_p90": "my_wait_seconds",
        },
        kv_percent=True,
    )
    page = 'my_requests{state="queued"} 4\nmy_requests{state="busy",tier="gpu"} 2\nmy_cache_percent 35\n'
    assert read(profile, page) == pytest.approx({"waiting": 4, "running": 2, "kv_cache_usage": 0.35})
    assert profile.histograms[Span.QUEUE][0].name == "my_wait_seconds"
    assert PageReader(profile).facts(b"my_cache_percent 135\n").impossible == {Fact.KV_USED}


WRONG = {
    "a signal that is none": ({"queue_length": "x", "waiting": "y"}, "'queue_length' is no signal"),
    "a gateway's signal": ({"queued": "x"}, "is no signal"),
    "nothing to decide by": ({"kv_cache_usage": "x"}, "at least one of waiting"),
    "a query": ({"waiting": "sum(x)"}, "write a name"),
    "an unquoted label": ({"waiting": "x{a=b}"}, 'label="value"'),
    "a regular expression": ({"waiting": 'x{a=~"b"}'}, 'label="value"'),
}


@pytest.mark.parametrize(("metrics", "words"), WRONG.values(), ids=WRONG.keys())
def test_names_that_cannot_be_used_are_refused_with_the_remedy(metrics: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        custom("mine", metrics)


def test_a_selector_without_labels_and_with_empty_ones_is_the_name() -> None:
    assert selector(" a:b ") == selector("a:b{}")


def test_a_histogram_is_summed_over_its_series_and_scaled_to_seconds() -> None:
    page = "".join(
        f'nv_inference_first_response_histogram_ms_bucket{{model="{m}",le="{le}"}} {count}\n'
        for m in ("a", "b")
        for le, count in (("100", 1), ("500", 3), ("+Inf", 4))
    )
    buckets = PageReader(TRITON).histograms(page.encode())[Span.TTFT]
    assert buckets.bounds_s[:2] == (0.1, 0.5)
    assert buckets.counts == (2, 6, 8)


BROKEN = {
    "falls": 'b{le="1"} 5\nb{le="2"} 4\nb{le="+Inf"} 6\n',
    "has no last bucket": 'b{le="1"} 5\nb{le="2"} 6\n',
    "has a bound that is no number": 'b{le="one"} 5\nb{le="+Inf"} 6\n',
    "has no bounds": "b 5\n",
    "is negative": 'b{le="1"} -5\nb{le="+Inf"} 6\n',
    "has more buckets than any engine": "".join(f'b{{le="{n}"}} 5\n' for n in range(250)) + 'b{le="+Inf"} 6\n',
}


@pytest.mark.parametrize("page", BROKEN.values(), ids=BROKEN.keys())
def test_a_histogram_that_cannot_be_one_is_missing(page: str) -> None:
    text = page.replace("b", "vllm:request_queue_time_seconds_bucket", 1)
    text = text.replace("\nb", "\nvllm:request_queue_time_seconds_bucket")
    assert PageReader(VLLM).histograms(text.encode()) == {}


def test_every_profile_needs_facts_that_it_has_names_for() -> None:
    for profile in PROFILES.values():
        assert set(profile.needed) <= set(profile.facts), profile.name
