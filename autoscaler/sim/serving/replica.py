"""One replica's continuous-batching engine, moved in closed form from one event to the next.

Enters: requests by their number in a `RequestBook`, a `Profile`, and instants. Leaves: instants in the book and what
the pod's metrics page shows. It knows nothing of other replicas, of routing or of policies.

An engine repeats steps. A step first makes room: each decoding request grows by one KV token, and where they do not fit
the youngest request is preempted to the head of the queue, to be recomputed later. Then, if nothing gave way, it admits
the head of the queue (FIFO) if a slot is free, no other prompt is in prefill, and the prompt fits; where the profile
lets prompts share a step, one after the other until its tokens are used up. The step lasts tpot(decoding) plus the time
of the prompts' tokens it carries (without chunks the prompt runs alone and decoding stalls); at its end each decoding
request has one more token, and a prompt whose last chunk is done has its first. Adding the two times is an upper
estimate, as both read the same weights; what is saved is the profile's `shared_s`. The order is that of vLLM v1
(vllm/v1/core/sched/scheduler.py).

Virtual time is the count of decode steps. A request that enters at count v with r tokens to go ends at v + r whatever
the batch does, so a heap of those counts finds the next end, and equal steps are taken in one stride until an event.
"""

import math
from array import array
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from autoscaler.core.types import PodReading
from autoscaler.sim.serving.profile import Profile

_NONE = -1


class RequestBook:
    """All requests by number (their order of arrival): what was asked, and when what happened. NaN is "not yet"."""

    __slots__ = ("admitted_s", "arrival_s", "done_log_request", "done_log_s", "done_s", "first_token_s", "kept_tokens",
                 "output", "preemptions", "prompt", "restarts", "token_log_request", "token_log_s")  # fmt: skip

    def __init__(self) -> None:
        self.arrival_s, self.admitted_s, self.first_token_s, self.done_s = (array("d") for _ in range(4))
        self.prompt, self.output, self.kept_tokens = array("q"), array("q"), array("q")
        self.preemptions, self.restarts = array("q"), array("q")
        # The order of first tokens and of completions, for the latency percentiles of a scrape.
        self.token_log_s, self.done_log_s = array("d"), array("d")
        self.token_log_request, self.done_log_request = array("q"), array("q")

    def __len__(self) -> int:
        return len(self.arrival_s)

    def add(self, arrival_s: float, prompt: int, output: int) -> int:
        """Enter one request and return its number."""
        self.arrival_s.append(arrival_s)
        self.prompt.append(prompt)
        self.output.append(output)
        for unknown in (self.admitted_s, self.first_token_s, self.done_s):
            unknown.append(math.nan)
        for zero in (self.kept_tokens, self.preemptions, self.restarts):
            zero.append(0)
        return len(self.arrival_s) - 1

    def restart(self, request: int) -> None:
        """Forget what a lost replica had done for the request: its client starts over, its wait goes on."""
        self.admitted_s[request] = self.first_token_s[request] = math.nan
        self.kept_tokens[request] = 0
        self.restarts[request] += 1


class Replica:
    """A replica's engine; see the module. Times passed in never go back; `end_s` is its next event, inf when idle."""

    __slots__ = ("_book", "_busy_s", "_chunk_s", "_chunks_left", "_finish", "_kv_free", "_parts", "_profile",
                 "_prompts", "_start_s", "_step_s", "_steps", "_tpot_s", "completed", "decode_steps", "end_s",
                 "generation_tokens", "name", "prompt_tokens", "queue", "ready_since_s", "running")  # fmt: skip

    def __init__(self, name: str, ready_since_s: float, profile: Profile, book: RequestBook) -> None:
        self.name = name
        self.ready_since_s = ready_since_s
        self.queue: deque[int] = deque()
        self.running: dict[int, int] = {}  # request -> decode step at which it ends, in order of admission
        self.end_s = math.inf
        self.decode_steps = self.completed = self.prompt_tokens = self.generation_tokens = 0
        self._profile, self._book = profile, book
        self._tpot_s = [profile.tpot_s(batch) for batch in range(profile.max_num_seqs + 1)]
        self._finish: list[tuple[int, int]] = []  # heap of (end, request); an entry `running` disagrees with is dead
        self._kv_free = profile.kv_tokens
        self._prompts: dict[int, int] = {}  # request in prefill -> tokens not computed yet, in order of admission
        self._parts: dict[int, int] = {}  # of these, the tokens that are computed in each step where prompts share it
        self._chunks_left = 0
        self._chunk_s = 0.0
        self._start_s = self._step_s = self._busy_s = 0.0
        self._steps = 0

    @property
    def load(self) -> int:
        """Requests here, waiting or running: what least-loaded routing compares."""
        return len(self.queue) + len(self.running)

    def enqueue(self, requests: Sequence[int], now_s: float, *, at_head: bool = False) -> None:
        """Take requests in order; an engine that could admit one is brought to its next step's edge (`end_s` moves)."""
        if at_head:
            self.queue.extendleft(reversed(requests))
        else:
            self.queue.extend(requests)
        if self.end_s == math.inf:
            self._plan(now_s)
        elif self._could_admit(now_s) and self.queue[0] == requests[0]:
            # Only a new head matters: an old one was refused for memory, which stays so until an event.
            steps = self._steps_before(now_s)
            steps += self._start_s + steps * self._step_s < now_s
            if steps < self._steps:
                self._steps, self.end_s = steps, self._start_s + steps * self._step_s

    def fire(self) -> None:
        """Live through the stride that ends at `end_s` and plan the next."""
        now_s = self.end_s
        self._apply(now_s)
        self._plan(now_s)

    def release_waiting(self) -> list[int]:
        """Give back, in order, the waiting requests that never ran here; preempted ones stay, their stream is open."""
        waiting = [request for request in self.queue if math.isnan(self._book.admitted_s[request])]
        self.queue = deque(request for request in self.queue if not math.isnan(self._book.admitted_s[request]))
        return waiting

    def release_all(self) -> list[int]:
        """Give back everything after a crash, in no order; what was begun starts over. The engine is dead."""
        lost = [*self.running, *self.queue]
        for request in lost:
            if not math.isnan(self._book.admitted_s[request]):
                self._book.restart(request)
        self.queue.clear()
        self.running.clear()
        self.end_s = math.inf
        return lost

    def busy_s(self, now_s: float) -> float:
        """Seconds up to `now_s` in which the engine ran a step."""
        return self._busy_s + (max(0.0, now_s - self._start_s) if self.end_s < math.inf else 0.0)

    def reading(self, now_s: float) -> PodReading:
        """The pod's metrics page at `now_s` (not past `end_s`): tokens of steps already ended are counted."""
        grown = 0
        if self.end_s < math.inf and self._decoding_moves():
            grown = min(self._steps, self._steps_before(now_s)) * self._decoders()
        capacity = self._profile.kv_tokens
        unbegun = len(self._prompts) if self._profile.prefill_waits else 0
        untold = self._come_since_step(now_s) if self._profile.page_by_step else 0
        return PodReading(
            name=self.name,
            ready_since_s=self.ready_since_s,
            waiting=float(len(self.queue) - untold + unbegun),
            waiting_deferred=0.0,
            running=float(len(self.running) - unbegun),
            requests_total=float(self.completed),
            prompt_tokens_total=float(self.prompt_tokens),
            generation_tokens_total=float(self.generation_tokens + grown),
            kv_cache_usage=(capacity - self._kv_free + grown) / capacity,
        )

    def _come_since_step(self, now_s: float) -> int:
        """Requests at the queue's end that arrived after the last step's end."""
        if self.end_s == math.inf:
            return 0
        edge_s = self._start_s + min(self._steps, self._steps_before(now_s)) * self._step_s
        count = 0
        for request in reversed(self.queue):
            if self._book.arrival_s[request] <= edge_s:
                break
            count += 1
        return count

    def _could_admit(self, now_s: float) -> bool:
        """Whether a step's edge may let somebody in: with prompts in the step only one that begins at this instant."""
        begins = self._profile.prompts_share and self._start_s == now_s
        return (begins or not self._prompts) and len(self.running) < self._profile.max_num_seqs

    def _decoders(self) -> int:
        return len(self.running) - len(self._prompts)

    def _decoding_moves(self) -> bool:
        return not self._prompts or self._profile.chunk_tokens is not None

    def _steps_before(self, now_s: float) -> int:
        """Whole steps of this stride ended at `now_s`, right to the last bit: edges are start + n * step."""
        steps = max(0, int((now_s - self._start_s) / self._step_s))
        while steps > 0 and self._start_s + steps * self._step_s > now_s:
            steps -= 1
        while self._start_s + (steps + 1) * self._step_s <= now_s:
            steps += 1
        return steps

    def _plan(self, now_s: float) -> None:
        while self._kv_free < self._decoders():
            self._preempt_youngest()
        # A request just put back cannot re-enter here: what was free before it left was less than the growth reserved.
        decoders = self._decoders()
        chunk = self._profile.chunk_tokens
        if self._profile.prompts_share and chunk is not None:
            self._fill(now_s, decoders, chunk)
        elif self.queue and not self._prompts and self._fits(decoders):
            tokens = self._admitted(now_s)
            self._chunks_left = 1 if chunk is None else -(-tokens // chunk)
            self._chunk_s = self._profile.prefill_s(tokens) / self._chunks_left
        self._start_s = now_s
        if not self.running:
            self.end_s = math.inf
            return
        self._stride(decoders)
        self.end_s = now_s + self._steps * self._step_s

    def _stride(self, decoders: int) -> None:
        """Set how long a step lasts, and how many equal steps pass until something must be decided."""
        if not self._decoding_moves():
            self._steps, self._step_s = 1, self._chunk_s
            return
        limits = []
        self._step_s = self._tpot_s[decoders]
        if self._chunks_left:
            self._step_s += self._chunk_s if not decoders else max(0.0, self._chunk_s - self._profile.shared_s)
            limits.append(self._chunks_left)
        if decoders:
            heap = self._finish
            while self.running.get(heap[0][1]) != heap[0][0]:
                heappop(heap)
            limits += [heap[0][0] - self.decode_steps, self._kv_free // decoders]
        self._steps = min(limits)

    def _fill(self, now_s: float, decoders: int, budget: int) -> None:
        """Give the next step's tokens to prompts that are begun, then to the queue's, in order; each decode has one."""
        profile, prompts, parts = self._profile, self._prompts, self._parts
        budget -= decoders
        for request, left in prompts.items():
            if budget > 0:
                parts[request] = min(left, budget)
                budget -= parts[request]
        while self.queue and budget > 0 and self._fits(decoders):
            request, tokens = self.queue[0], self._admitted(now_s)
            parts[request] = min(tokens, budget)
            budget -= parts[request]
        self._chunks_left = 1 if parts else 0
        if parts:
            first = next(iter(parts))
            begun = self._tokens(first) - prompts[first]
            whole_s = profile.prefill_s(begun + sum(parts.values()))
            self._chunk_s = whole_s - (profile.prefill_s(begun) if begun else 0.0)

    def _tokens(self, request: int) -> int:
        return self._book.prompt[request] + self._book.kept_tokens[request]

    def _fits(self, decoders: int) -> bool:
        free = self._kv_free - decoders
        return len(self.running) < self._profile.max_num_seqs and free >= self._tokens(self.queue[0])

    def _admitted(self, now_s: float) -> int:
        """Take the queue's head into the batch; the tokens of its prompt, what it had generated included."""
        book, request = self._book, self.queue.popleft()
        tokens = self._tokens(request)
        self._kv_free -= tokens
        self.running[request] = _NONE
        self._prompts[request] = tokens
        if math.isnan(book.admitted_s[request]):
            book.admitted_s[request] = now_s
        return tokens

    def _preempt_youngest(self) -> None:
        book = self._book
        request, finish = self.running.popitem()
        if request in self._prompts:
            del self._prompts[request]
            self._chunks_left = 0
            self._kv_free += self._tokens(request)
        else:
            generated = book.output[request] - (finish - self.decode_steps)
            self._kv_free += book.prompt[request] + generated - 1
            book.kept_tokens[request] = generated
        book.preemptions[request] += 1
        self.queue.appendleft(request)

    def _apply(self, now_s: float) -> None:
        steps = self._steps
        self._busy_s += now_s - self._start_s
        if self._decoding_moves():
            decoders = self._decoders()
            self.decode_steps += steps
            self._kv_free -= decoders * steps
            self.generation_tokens += decoders * steps
        if self._chunks_left:
            self._chunks_left -= steps
            self._compute(now_s, steps)
        heap = self._finish
        while heap and heap[0][0] <= self.decode_steps:
            finish, request = heappop(heap)
            if self.running.get(request) == finish:
                self._complete(request, now_s)

    def _compute(self, now_s: float, steps: int) -> None:
        """Take what `steps` that ended computed off the prompts, and end those of which nothing is left."""
        if not self._profile.prompts_share:
            done = [] if self._chunks_left else list(self._prompts)
        else:
            for request, tokens in self._parts.items():
                self._prompts[request] -= steps * tokens
            done = [request for request in self._parts if not self._prompts[request]]
            self._parts.clear()
        for request in done:
            del self._prompts[request]
            self._end_prefill(request, now_s)

    def _end_prefill(self, request: int, now_s: float) -> None:
        book = self._book
        kept = book.kept_tokens[request]
        if kept == 0:
            self.prompt_tokens += book.prompt[request]
            book.first_token_s[request] = now_s
            book.token_log_s.append(now_s)
            book.token_log_request.append(request)
        self.generation_tokens += 1
        to_go = book.output[request] - kept - 1
        if to_go == 0:
            self._complete(request, now_s)
        else:
            finish = self.decode_steps + to_go
            self.running[request] = finish
            heappush(self._finish, (finish, request))

    def _complete(self, request: int, now_s: float) -> None:
        book = self._book
        del self.running[request]
        self._kv_free += book.prompt[request] + book.output[request] - 1
        self.completed += 1
        book.done_s[request] = now_s
        book.done_log_s.append(now_s)
        book.done_log_request.append(request)
