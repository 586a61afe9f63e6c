"""A slow continuous-batching engine, one step and one request at a time, to judge the simulator's strides by.

It keeps every token count by adding and every instant by adding, and shares no code or formula with the simulator. Its
times are dyadic (eighths and sixteenths of a second), so that floats are exact and results can be compared with ==.
"""

from dataclasses import dataclass, field


@dataclass
class Job:
    number: int
    arrival_s: float
    prompt: int
    output: int
    made: int = 0
    held: int = 0
    chunks_to_do: int = 0
    chunk_s: float = 0.0
    unread: int = 0
    reads: int = 0
    admitted_s: float | None = None
    first_s: float | None = None
    done_s: float | None = None
    preempted: int = 0


@dataclass
class Pod:
    waiting: list[Job] = field(default_factory=list)
    batch: list[Job] = field(default_factory=list)
    in_step: list[Job] = field(default_factory=list)
    step_ends_s: float | None = None


@dataclass(frozen=True)
class Engine:
    slots: int
    memory: int
    chunk: int | None
    share: bool = False
    """Several prompts are read in one step, `chunk` tokens in all with one for each that decodes."""

    @staticmethod
    def prefill_s(tokens: int) -> float:
        return tokens / 8

    @staticmethod
    def decode_s(batch: int) -> float:
        return 0.25 + 0.0625 * (batch - 1) if batch else 0.0

    def end_step(self, pod: Pod, now_s: float) -> None:
        for job in pod.in_step:
            if self.share and job.unread:
                job.unread -= job.reads
                job.chunks_to_do = 1 if job.unread else 0
                if job.unread:
                    continue
                job.first_s = now_s if job.first_s is None else job.first_s
            elif job.chunks_to_do:
                job.chunks_to_do -= 1
                if job.chunks_to_do:
                    continue
                job.first_s = now_s if job.first_s is None else job.first_s
            else:
                job.held += 1
            job.made += 1
            if job.made == job.output:
                job.done_s = now_s
                pod.batch.remove(job)
        pod.in_step, pod.step_ends_s = [], None

    def begin_step(self, pod: Pod, now_s: float) -> None:
        room_made = False
        while True:
            decoding = [job for job in pod.batch if not job.chunks_to_do]
            if sum(job.held for job in pod.batch) + len(decoding) <= self.memory:
                break
            victim = pod.batch.pop()
            victim.held, victim.chunks_to_do, victim.unread = 0, 0, 0
            victim.preempted += 1
            pod.waiting.insert(0, victim)
            room_made = True
        if self.share:
            self.begin_shared_step(pod, now_s, decoding, room_made=room_made)
            return
        reading = [job for job in pod.batch if job.chunks_to_do]
        if pod.waiting and not reading and not room_made and len(pod.batch) < self.slots:
            job = pod.waiting[0]
            tokens = job.prompt + job.made
            if sum(other.held for other in pod.batch) + len(decoding) + tokens <= self.memory:
                pod.waiting.pop(0)
                pod.batch.append(job)
                job.held = tokens
                job.chunks_to_do = len(range(0, tokens, self.chunk)) if self.chunk else 1
                job.chunk_s = self.prefill_s(tokens) / job.chunks_to_do
                job.admitted_s = now_s if job.admitted_s is None else job.admitted_s
                reading = [job]
        if not pod.batch:
            return
        if reading and self.chunk is None:
            decoding = []
        pod.in_step = decoding + reading
        pod.step_ends_s = now_s + self.decode_s(len(decoding)) + sum(job.chunk_s for job in reading)

    def begin_shared_step(self, pod: Pod, now_s: float, decoding: list[Job], *, room_made: bool) -> None:
        assert self.chunk is not None
        spare = self.chunk - len(decoding)
        reading = []
        for job in [job for job in pod.batch if job.unread]:
            job.reads = min(spare, job.unread)
            spare -= job.reads
            if job.reads:
                reading.append(job)
        while pod.waiting and spare and not room_made and len(pod.batch) < self.slots:
            job = pod.waiting[0]
            tokens = job.prompt + job.made
            if sum(other.held for other in pod.batch) + len(decoding) + tokens > self.memory:
                break
            pod.batch.append(pod.waiting.pop(0))
            job.held = job.unread = tokens
            job.chunks_to_do = 1
            job.admitted_s = now_s if job.admitted_s is None else job.admitted_s
            job.reads = min(spare, tokens)
            spare -= job.reads
            reading.append(job)
        if pod.batch:
            pod.in_step = decoding + reading
            pod.step_ends_s = now_s + self.decode_s(len(decoding)) + self.prefill_s(sum(job.reads for job in reading))


def run(engine: Engine, jobs: list[Job], pods: int, *, hold_at_gateway: bool) -> None:
    """Serve the jobs (in order of arrival) to the end, writing their instants into them."""
    fleet = [Pod() for _ in range(pods)]
    gateway: list[Job] = []
    coming = list(jobs)
    while coming or any(pod.step_ends_s is not None for pod in fleet):
        instants = [pod.step_ends_s for pod in fleet if pod.step_ends_s is not None]
        if coming:
            instants.append(coming[0].arrival_s)
        now_s = min(instants)
        for pod in fleet:
            if pod.step_ends_s == now_s:
                engine.end_step(pod, now_s)
        while True:
            while gateway:
                least = min(fleet, key=lambda pod: len(pod.waiting) + len(pod.batch))
                if hold_at_gateway and len(least.waiting) + len(least.batch) >= engine.slots:
                    break
                least.waiting.append(gateway.pop(0))
            if not coming or coming[0].arrival_s > now_s:
                break
            gateway.append(coming.pop(0))
        for pod in fleet:
            if pod.step_ends_s is None:
                engine.begin_step(pod, now_s)
