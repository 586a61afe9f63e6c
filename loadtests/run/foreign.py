"""Replicas of another make: Dynamo's simulated vLLM, a process for each pod, in place of our own engine servers.

Enters: the engine's speed, an address. Leaves: a server whose batching, KV blocks, HTTP and metrics page are none of
ours; only how long a prompt and a step take is the profile's, so that a prediction is of the same engine. It needs the
part `dynamo` (`dev.py parts dynamo`), and imports nothing of it.

Source: NVIDIA Dynamo 1.6.1, whose mocker reads a profile as tables: `prefill_ttft_ms` over `prefill_isl`, and
`decode_itl` in ms over `decode_active_kv_tokens` and `decode_context_length`, whose quotient is the batch.
"""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import aiohttp
import numpy as np

from autoscaler.errors import InputError
from autoscaler.ports import Clock
from loadtests.engines.profile import BLOCK_TOKENS, Speed
from loadtests.engines.server import ListenError, Stages
from tests.real import environments

PROGRAM: Final = environments.HERE / environments.DYNAMO / "engine.py"
NAMES: Final[Mapping[str, str]] = {
    "engine": "custom",
    "metrics-waiting": "vllm:num_requests_waiting",
    "metrics-running": "vllm:num_requests_running",
    "metrics-requests-total": "vllm:e2e_request_latency_seconds_count",
    "metrics-generation-tokens-total": "vllm:inter_token_latency_seconds_count",
    "metrics-kv-cache-usage": "vllm:kv_cache_usage_perc",
    "metrics-ttft-s-p90": "vllm:time_to_first_token_seconds",
}
"""What an owner annotates: it has vLLM's gauges, and of vLLM's counters none, which histograms' counts stand in for."""

LOOK_S: Final = 0.25
"""Between two readings of a page; time in which a request ran is told to so much."""
UP_S: Final = 60.0
STALE_S: Final = 2.0 * LOOK_S
"""So old may be what it tells of its requests."""
_LONGEST: Final = 32_768
"""Tokens of a prompt and its answer."""
_TOKENS: Final = 4096
"""Words of the tokenizer: the mocker draws what it generates from the first few thousand."""


def metrics_port(port: int) -> int:
    """Where a worker's page is, by the port that serves: one of its own, and Dynamo takes none above 32767."""
    return port // 2


def tables(speed: Speed) -> dict[str, np.ndarray]:
    """The profile as Dynamo's tables. Between two of its points it is linear in both, so a batch is met at points that
    lie densely."""
    prompts = np.unique(np.round(np.geomspace(1, _LONGEST, 200)))
    held = np.linspace(0, speed.kv_tokens, 201)
    lengths = np.unique(np.round(np.geomspace(16, _LONGEST, 120)))
    batches = np.clip(held[:, None] / lengths, 1, speed.slots)
    return {
        "prefill_isl": prompts,
        "prefill_ttft_ms": np.array([1e3 * speed.prefill.at(tokens) for tokens in prompts]),
        "decode_active_kv_tokens": held,
        "decode_context_length": lengths,
        "decode_itl": 1e3 * np.vectorize(speed.decode.at)(batches),
    }


def prepare(folder: Path, speed: Speed) -> None:
    """Write what its processes read: the profile, and a tokenizer to which a word is a token."""
    np.savez(folder / "profile.npz", **tables(speed))  # type: ignore[arg-type] # the stub takes the names for flags
    words = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(_TOKENS - 3))]
    files: dict[str, object] = {
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": {word: at for at, word in enumerate(words)}, "unk_token": "<unk>"},
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
            "unk_token": "<unk>", "model_max_length": _LONGEST,
            "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
        },
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_attention_heads": 8,
            "num_key_value_heads": 8, "num_hidden_layers": 2, "vocab_size": _TOKENS, "bos_token_id": 1,
            "eos_token_id": 2, "max_position_embeddings": _LONGEST,
        },
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2},
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


class Foreign:
    """One replica; `folder` is one that `prepare` was given. InputError where the part is not there."""

    def __init__(
        self, address: str, port: int, model: str, *, speed: Speed, folder: Path, clock: Clock, stages: Stages = ()
    ) -> None:  # fmt: skip
        self.address, self.port, self.stages = address, port, stages
        self.up = False
        """Whether it takes requests."""
        self.stale_s = STALE_S
        self.waiting = self.running = 0
        self.kv_used_ratio = 0.0
        self.busy_s = 0.0
        """In which requests ran, as its page told."""
        self._model, self._speed, self._folder, self._clock = model, speed, folder, clock
        lacking, python = environments.missing(environments.DYNAMO), environments.python(environments.DYNAMO)
        if lacking is not None or python is None:
            raise InputError(lacking or "")
        self._python = python
        self.process: Process | None = None
        """Its process; None until it was started."""

    def order(self) -> dict[str, object]:
        """What its process is told."""
        return {
            "address": self.address, "port": self.port, "metrics_port": metrics_port(self.port),
            "model": self._model, "folder": str(self._folder),
            "engine": {
                "backend": "vllm", "worker_type": "aggregated", "block_size": BLOCK_TOKENS,
                "num_gpu_blocks": self._speed.kv_tokens // BLOCK_TOKENS, "max_num_seqs": self._speed.slots,
                "max_num_batched_tokens": self._speed.step_tokens, "enable_prefix_caching": False,
                "timing_model": {
                    "type": "external", "provider": "dynamo_profile",
                    "config": {"path": str(self._folder / "profile.npz")},
                },
            },
        }  # fmt: skip

    async def run(self) -> None:
        """Live until cancelled: its stages and its process begin at once, then requests. ListenError where it does not
        come up, or ends by itself."""
        log = self._folder / f"{self.address}.log"
        with log.open("ab") as output:
            child = self.process = await asyncio.create_subprocess_exec(
                self._python, PROGRAM, json.dumps(self.order()), stdin=PIPE, stdout=output, stderr=output
            )
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1.0)) as session:
                await self._started(session, child, log)
                self.up = True
                while child.returncode is None:
                    looked_s = self._clock.monotonic()
                    await self._told(session)
                    await self._clock.sleep_until(looked_s + LOOK_S)
            raise ListenError(f"Dynamo's engine at {self.address} ended by itself: {_end(log)}")
        finally:
            self.up = False
            if child.returncode is None:
                child.kill()
            await child.wait()

    async def _started(self, session: aiohttp.ClientSession, child: Process, log: Path) -> None:
        begun_s = self._clock.monotonic()
        warm_s = begun_s + sum(length_s for _, length_s in self.stages)
        while not (await self._asked(session) and await self._told(session)):
            if child.returncode is not None or self._clock.monotonic() > begun_s + UP_S:
                raise ListenError(f"Dynamo's engine at {self.address}:{self.port} does not come up: {_end(log)}")
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)
        if self._clock.monotonic() < warm_s:
            await self._clock.sleep_until(warm_s)

    async def _asked(self, session: aiohttp.ClientSession) -> bool:
        """Whether it has answered a request of one token. Before its first one its page has none of vLLM's names."""
        ask = {"model": self._model, "prompt": "word", "max_tokens": 1}
        try:
            async with session.post(f"http://{self.address}:{self.port}/v1/completions", json=ask) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _told(self, session: aiohttp.ClientSession) -> bool:
        """Keep what its page tells; whether it came. Of one that did not, what was known before stays."""
        told = dict[str, float]()
        try:
            async with session.get(f"http://{self.address}:{metrics_port(self.port)}/metrics") as response:
                text = await response.text()
        except (aiohttp.ClientError, TimeoutError):
            return False
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith("vllm:"):
                told[name.partition("{")[0]] = float(value)
        if not told:
            return False
        self.waiting = int(told[NAMES["metrics-waiting"]])
        self.running = int(told[NAMES["metrics-running"]])
        self.kv_used_ratio = told[NAMES["metrics-kv-cache-usage"]]
        self.busy_s += LOOK_S if self.running else 0.0
        return True


def _end(log: Path) -> str:
    return log.read_text(errors="replace")[-500:].strip() or "it wrote nothing"
