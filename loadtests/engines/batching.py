"""Continuous batching as a state machine: what is in the next step, and what a finished step gave.

Enters: requests, and the end of each step. Leaves: steps with their duration, and tokens. It knows no clock, socket or
page; whoever drives it waits for as long as a step lasts.

A step has a budget of tokens. Requests in the batch come first, in order of admission: one that decodes takes one
token, one whose prompt is not computed takes as much as is left. Then the head of the queue is admitted, while there
is a slot, budget, and memory for all that the request knows. Memory is held in blocks. Where a decode finds none free,
the request admitted last gives way: it loses its blocks, goes to the head of the queue, and is recomputed with what it
had generated.
"""

from collections import deque
from dataclasses import dataclass, field

from loadtests.engines.profile import BLOCK_TOKENS, Speed


@dataclass(slots=True, eq=False)
class Sequence:
    """One request in the engine."""

    prompt_tokens: int
    output_tokens: int
    emitted: int = 0
    computed: int = 0
    """Tokens whose KV is in the cache."""
    blocks: int = 0
    preemptions: int = 0
    gone: bool = False
    """Cancelled, or all its tokens emitted."""

    @property
    def known(self) -> int:
        """Tokens there are of it: its prompt and what it generated."""
        return self.prompt_tokens + self.emitted


@dataclass(frozen=True, slots=True)
class Step:
    """One pass of the engine."""

    duration_s: float
    parts: tuple[tuple[Sequence, int], ...]
    """Requests with the tokens that are computed for each."""
    admitted: tuple[Sequence, ...] = ()


@dataclass(slots=True)
class Batch:
    """The requests of one engine."""

    speed: Speed
    queue: deque[Sequence] = field(default_factory=deque)
    running: list[Sequence] = field(default_factory=list)
    """In order of admission."""
    free_blocks: int = field(init=False)
    preemptions: int = 0

    def __post_init__(self) -> None:
        self.free_blocks = self.blocks

    @property
    def blocks(self) -> int:
        """Blocks of the whole cache."""
        return self.speed.kv_tokens // BLOCK_TOKENS

    @property
    def used_ratio(self) -> float:
        """Share of the cache in use."""
        return 1.0 - self.free_blocks / self.blocks

    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether a request could ever be finished here."""
        return _blocks(prompt_tokens + output_tokens) <= self.blocks

    def arrive(self, sequence: Sequence) -> None:
        """Queue a request. ValueError where it could never be finished."""
        if not self.fits(sequence.prompt_tokens, sequence.output_tokens):
            raise ValueError("longer than the cache")
        self.queue.append(sequence)

    def cancel(self, sequence: Sequence) -> None:
        """Forget a request, wherever it is."""
        if sequence.gone:
            return
        sequence.gone = True
        if sequence in self.running:
            self._release(sequence)
            self.running.remove(sequence)
        else:
            self.queue.remove(sequence)

    def plan(self) -> Step | None:
        """The next step; None where there is nothing to do."""
        budget, parts, before = self.speed.step_tokens, [], self.preemptions
        at = 0
        while at < len(self.running) and budget:
            sequence = self.running[at]
            tokens = min(sequence.known - sequence.computed, budget)
            if not self._held(sequence, sequence.computed + tokens):
                break
            parts.append((sequence, tokens))
            budget -= tokens
            at += 1
        admitted = self._admit(parts, budget) if self.preemptions == before else []
        if not parts:
            return None
        prompts = [(seq.computed, tokens) for seq, tokens in parts if seq.known - seq.computed > 1 or not seq.emitted]
        return Step(self.speed.step_s(prompts, len(parts) - len(prompts)), tuple(parts), tuple(admitted))

    def finish(self, step: Step) -> list[Sequence]:
        """Requests that have one more token at the step's end; those with their last one are gone."""
        emitting = []
        for sequence, tokens in step.parts:
            if sequence.gone:
                continue
            sequence.computed += tokens
            if sequence.computed < sequence.known:
                continue
            sequence.emitted += 1
            emitting.append(sequence)
            if sequence.emitted == sequence.output_tokens:
                sequence.gone = True
                self._release(sequence)
                self.running.remove(sequence)
        return emitting

    def _admit(self, parts: list[tuple[Sequence, int]], budget: int) -> list[Sequence]:
        admitted = []
        while self.queue and budget and len(self.running) < self.speed.slots:
            sequence = self.queue[0]
            if _blocks(sequence.known) > self.free_blocks:
                break
            self.queue.popleft()
            self.running.append(sequence)
            self.free_blocks -= _blocks(sequence.known)
            sequence.blocks = _blocks(sequence.known)
            tokens = min(sequence.known, budget)
            parts.append((sequence, tokens))
            admitted.append(sequence)
            budget -= tokens
        return admitted

    def _held(self, sequence: Sequence, tokens: int) -> bool:
        """Hold the blocks of so many tokens, from whoever came last if need be; False where it gave way itself."""
        wanted = _blocks(tokens)
        while wanted - sequence.blocks > self.free_blocks:
            last = self.running[-1]
            self._preempt(last)
            if last is sequence:
                return False
        if wanted > sequence.blocks:
            self.free_blocks -= wanted - sequence.blocks
            sequence.blocks = wanted
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.running.pop()
        self._release(sequence)
        sequence.computed = 0
        sequence.preemptions += 1
        self.preemptions += 1
        self.queue.appendleft(sequence)

    def _release(self, sequence: Sequence) -> None:
        self.free_blocks += sequence.blocks
        sequence.blocks = 0


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)
