"""The engines and gateways whose names we know, with the versions in which they changed.

Sources: the projects' own metric definitions, and the mapping that the llm-d router uses for the same engines
(llm-d/llm-d-router: pkg/epp/framework/plugins/datalayer/extractor/metrics, docs/metrics.md).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from autoscaler.adapters.engines.profiles import Fact, Profile, Series, Span

_REASON = "vllm:num_requests_waiting_by_reason"

VLLM: Final = Profile(
    "vllm",
    {
        # From 0.29 on the queue is split by reason; "deferred" waits for a grammar or for remote KV, not for a GPU.
        Fact.WAITING: (Series(_REASON, (("reason", "capacity"),)), Series("vllm:num_requests_waiting")),
        Fact.WAITING_DEFERRED: (Series(_REASON, (("reason", "deferred"),)),),
        Fact.RUNNING: (Series("vllm:num_requests_running"),),
        Fact.REQUESTS: (Series("vllm:request_success_total"),),
        Fact.PROMPT_TOKENS: (Series("vllm:prompt_tokens_total"),),
        Fact.GENERATION_TOKENS: (Series("vllm:generation_tokens_total"),),
        # 0..1 in spite of "perc"; the old name is still that of llm-d's inference simulator.
        Fact.KV_USED: (Series("vllm:kv_cache_usage_perc"), Series("vllm:gpu_cache_usage_perc")),
    },
    {
        Span.QUEUE: (Series("vllm:request_queue_time_seconds"),),
        Span.TTFT: (Series("vllm:time_to_first_token_seconds"),),
        Span.TPOT: (Series("vllm:inter_token_latency_seconds"), Series("vllm:time_per_output_token_seconds")),
        Span.DURATION: (Series("vllm:e2e_request_latency_seconds"),),
    },
)

_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")
"""Tensor, pipeline and expert ranks of one replica report the same scheduler; data-parallel ranks are apart."""


def _sglang(name: str) -> tuple[Series, ...]:
    """With priorities the total has an empty priority label beside one series for each; older builds had no total."""
    total = f"sglang:{name}"
    return Series(total, (("priority", ""),), copies=_RANKS), Series(total, copies=_RANKS)


SGLANG: Final = Profile(
    "sglang",
    {
        Fact.WAITING: _sglang("num_queue_reqs"),
        Fact.WAITING_DEFERRED: (Series("sglang:num_grammar_queue_reqs", copies=_RANKS),),
        Fact.RUNNING: _sglang("num_running_reqs"),
        Fact.REQUESTS: (Series("sglang:num_requests_total"),),
        Fact.PROMPT_TOKENS: (Series("sglang:prompt_tokens_total"),),
        Fact.GENERATION_TOKENS: (Series("sglang:generation_tokens_total"),),
        Fact.KV_USED: (Series("sglang:token_usage", copies=_RANKS),),
    },
    {
        Span.QUEUE: (Series("sglang:queue_time_seconds"),),
        Span.TTFT: (Series("sglang:time_to_first_token_seconds"),),
        Span.TPOT: (Series("sglang:inter_token_latency_seconds"), Series("sglang:time_per_output_token_seconds")),
        Span.DURATION: (Series("sglang:e2e_request_latency_seconds"),),
    },
)

TGI: Final = Profile(
    "tgi",
    {
        Fact.WAITING: (Series("tgi_queue_size"),),
        Fact.RUNNING: (Series("tgi_batch_current_size"),),
        Fact.REQUESTS: (Series("tgi_request_success"), Series("tgi_request_success_total")),
        # Sums of histograms of finished requests: they move at the end of a request only.
        Fact.PROMPT_TOKENS: (Series("tgi_request_input_length_sum"),),
        Fact.GENERATION_TOKENS: (Series("tgi_request_generated_tokens_sum"),),
    },
    {
        Span.QUEUE: (Series("tgi_request_queue_duration"),),
        Span.TPOT: (Series("tgi_request_mean_time_per_token_duration"),),
        Span.DURATION: (Series("tgi_request_duration"),),
    },
)


def _batch_manager(kind: str) -> Series:
    return Series("nv_trt_llm_request_metrics", (("request_type", kind),))


TRITON: Final = Profile(
    "triton",
    {
        # "waiting" came after 23.11; without it Triton's own queue is what there is.
        Fact.WAITING: (_batch_manager("waiting"), Series("nv_inference_pending_request_count")),
        Fact.RUNNING: (_batch_manager("scheduled"),),
        Fact.REQUESTS: (Series("nv_inference_request_success"),),
        Fact.KV_USED: (Series("nv_trt_llm_kv_cache_block_metrics", (("kv_cache_block_type", "fraction"),)),),
    },
    {Span.TTFT: (Series("nv_inference_first_response_histogram_ms", scale=1e-3),)},
)

TRTLLM: Final = Profile(
    "trtllm",
    {
        Fact.WAITING: (Series("trtllm_num_requests_waiting"),),
        Fact.RUNNING: (Series("trtllm_num_requests_running"),),
        Fact.REQUESTS: (Series("trtllm_request_success_total"), Series("trtllm_num_requests_completed_total")),
        Fact.PROMPT_TOKENS: (Series("trtllm_prompt_tokens_total"),),
        Fact.GENERATION_TOKENS: (Series("trtllm_generation_tokens_total"),),
        Fact.KV_USED: (Series("trtllm_kv_cache_utilization"),),
    },
    {
        Span.QUEUE: (Series("trtllm_request_queue_time_seconds"),),
        Span.TTFT: (Series("trtllm_time_to_first_token_seconds"),),
        Span.TPOT: (Series("trtllm_time_per_output_token_seconds"),),
        Span.DURATION: (Series("trtllm_e2e_request_latency_seconds"),),
    },
)

_AWAY = (("outcome", "Dispatched"),)

LLM_D_EPP: Final = Profile(
    "llm-d-epp",
    {
        # The old prefixes were emitted beside the new one for a while: one or the other, never both.
        Fact.QUEUED: (
            Series("llm_d_epp_flow_control_queue_size"),
            Series("inference_extension_flow_control_queue_size"),
        ),
        Fact.DISPATCHED: (
            Series("llm_d_epp_request_total"),
            Series("inference_objective_request_total"),
            Series("inference_model_request_total"),
        ),
        Fact.TURNED_AWAY: (Series("llm_d_epp_flow_control_requests_total", unless=_AWAY),),
    },
    # A picker that has just started and found no pod shows a queue and has sent nothing on yet: that is what wakes.
    needed=(Fact.QUEUED, Fact.DISPATCHED),
)

PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {profile.name: profile for profile in (VLLM, SGLANG, TGI, TRITON, TRTLLM, LLM_D_EPP)}
)
"""By the name that users write."""
