"""The work that is taken in, by name, and of all other work as much as its turn takes to be known.

Enters: work as it is read, whose it is, what is to be taken in whatever comes. Leaves: the work that is taken in, and
whose place changed; of the objects of all other work as little is held as can be. Work of a queue is its tenant's where
the queue is served and takes it; all other work is its namespace's, so that nobody takes others' places by a label.
What was let go of is read anew, by `bring`, once its turn comes.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from autoscaler.adapters.kube.batch_intake import GATHERED, Ask, BatchIntake
from autoscaler.adapters.kube.batch_work import Work
from autoscaler.ports import Clock

AT_ONCE: Final = 16
"""Objects that are read anew at the same time."""

PER_S: Final = 20.0
"""And a second: of the client's fifty the rest is others'. Where a tenant's gangs are deleted others' come in by
thousands, and a hundred patches at once would wait for two seconds between them, for ten minutes."""

RETRY_S: Final = 2.0
"""Before objects are read again after not all of them could be."""

LAST: Final = 2**31
"""Behind every priority that a PriorityClass may have."""

NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Untaken(NamedTuple):
    """What is known of work that is not taken in."""

    queue: str
    """Empty where it is none's: it names none, or somebody else manages it."""
    priority_class: str
    created_s: float


class TakenWork:
    """The work of one cluster. `changed` is called when somebody's place changed; `priority` is that of a class,
    None for one with which no work starts; `let_go` has the object of this name held as little as can be, `bring` reads
    it anew and puts it, and says whether it could be asked for."""

    def __init__(
        self,
        most: int,
        clock: Clock,
        *,
        changed: Callable[[], None],
        priority: Callable[[str], int | None],
        is_queue: Callable[[str], bool],
        let_go: Callable[[str], None],
        bring: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._clock, self._changed, self._priority = clock, changed, priority
        self._let_go, self._bring = let_go, bring
        self._admits: Callable[[str, str], bool] = lambda _, queue: is_queue(queue)
        self._all: dict[str, Work] = {}
        self.all: Mapping[str, Work] = MappingProxyType(self._all)
        """Work that is taken in by name, live."""
        self._others: dict[str, Untaken] = {}
        self.others: Mapping[str, Untaken] = MappingProxyType(self._others)
        """Work that is not, live."""
        self._intake = BatchIntake(most)
        self._is_stale = False
        """Tenants or priorities are others than when all places were given last."""
        self._kept: frozenset[str] = frozenset()
        self._remembered: dict[str, frozenset[str]] = {}
        """By queue; none is empty."""
        self._fixed: frozenset[str] = frozenset()
        """All of those."""
        self._touched: dict[str, None] | None = None
        """None before it is asked for: a replica may follow for months, and has to know then what there is, no more."""
        self._wanted: dict[str, None] = {}
        """Work whose turn it is and that has to be read anew."""
        self._bell = asyncio.Event()

    @property
    def most(self) -> int:
        """As much work as is taken in."""
        return self._intake.most

    def put(self, work: Work) -> bool:
        """Note work that came or changed; whether it is taken in."""
        name = work.name
        if work.ended:
            self._intake.leave(name)
            work = replace(work, sets=(), annotations=NONE)  # it stays as long as its object, and that may be for ever
        else:
            known = _known(work)
            self._ask(name, known, counts=_runs(work))
            if not self._intake.takes(name):
                self._others[name] = known
                self._remove(name)
                self._let_go(name)
                self._gather()
                return False
        self._others.pop(name, None)
        self._wanted.pop(name, None)
        self._all[name] = work
        self.touch(name)
        self._gather()
        return True

    def drop(self, name: str) -> None:
        """Note that there is no such work any more."""
        self._intake.leave(name)
        self._others.pop(name, None)
        self._wanted.pop(name, None)
        self._remove(name)
        if self._intake.unsettled and self._others:
            self._changed()

    def touch(self, name: str) -> None:
        """Something changed that concerns this work."""
        if self._touched is not None:
            self._touched[name] = None
        self._changed()

    def touched(self) -> tuple[str, ...]:
        """The work that changed, went, or has another place since this was last asked; at first all there is."""
        self.settle()
        names, self._touched = tuple(self._all if self._touched is None else self._touched), {}
        return names

    def keep(self, names: Iterable[str]) -> None:
        """From now on these are taken in whatever comes: something is held or kept for them."""
        self._kept = frozenset(names)
        self._hold()

    def remember(self, queue: str, names: Iterable[str]) -> None:
        """The same of those for whom a queue's status says that something is kept, whoever wrote it."""
        before, now = self._remembered.pop(queue, frozenset[str]()), frozenset(names)
        if now:
            self._remembered[queue] = now
        if before != now:
            self._hold()

    def lacks_kept(self) -> bool:
        """Whether work has yet to be read anew that something is kept for."""
        return any(name in self._others for name in self._fixed)

    def share_by(self, admits: Callable[[str, str], bool]) -> None:
        """From now on `admits` says whether a namespace may use a queue that is served."""
        self._admits = admits
        self.renew()

    def renew(self) -> None:
        """Have all places given anew when they are settled next: what tenants or priorities are told by has changed.

        Not at once: a list of PriorityClasses tells of one after the other, and each concerns all work there is.
        """
        self._is_stale = True
        self._changed()

    def touch_of(self, classes: Container[str] | None) -> None:
        """The PriorityClasses of these names changed, or all of them: that concerns work that names one, whose turn is
        another one besides."""
        names = [name for name, work in self._all.items() if classes is None or work.priority_class in classes]
        if self._touched is not None:
            self._touched.update(dict.fromkeys(names))
        if names or any(classes is None or known.priority_class in classes for known in self._others.values()):
            self.renew()

    def settle(self) -> None:
        """Have everybody's place follow from who asks now."""
        out, back = self._intake.renew(self._asks()) if self._is_stale else self._intake.settle()
        self._is_stale = False
        for name in out:
            if (work := self._all.get(name)) is not None:
                self._others[name] = _known(work)
                self._remove(name)
                self._let_go(name)
            self._wanted.pop(name, None)
        self._want(back)

    def untaken(self) -> Counter[str]:
        """How much work is not taken in, by the queue that it is counted for; empty for what is no queue's."""
        found = Counter[str]()
        for tenant, number in self._intake.outside.items():  # there may be hundreds of thousands, of a few tenants
            found["" if tenant.endswith("/") else tenant] += number
        for name in self._wanted:
            queue = self._others[name].queue
            found[queue if self._tenant(name.split("/", 2)[1], queue) == queue else ""] += 1
        return found

    async def run(self) -> None:
        """Read anew what its turn comes for, until cancelled."""
        while True:
            names = list(self._wanted)[:AT_ONCE]
            if not names:
                self._bell.clear()
                await self._bell.wait()
                continue
            for name in names:
                del self._wanted[name]
            next_s = self._clock.monotonic() + len(names) / PER_S
            async with asyncio.TaskGroup() as group:
                tasks = {name: group.create_task(self._brought(name), name="batch object") for name in names}
            missed = [name for name, task in tasks.items() if not task.result()]
            if missed:
                await self._clock.sleep_until(self._clock.monotonic() + RETRY_S)
                self._want(missed)
            await self._clock.sleep_until(next_s)

    async def _brought(self, name: str) -> bool:
        return await self._bring(name)

    def _want(self, names: Iterable[str]) -> None:
        self._wanted.update({name: None for name in names if name in self._others and self._intake.takes(name)})
        self._bell.set()

    def _ask(self, name: str, known: Untaken, *, counts: bool) -> None:
        tenant = self._tenant(name.split("/", 2)[1], known.queue)
        turn = (self._rank(known.priority_class), known.created_s, name)
        self._intake.ask(name, Ask(tenant, turn, is_fixed=counts or name in self._fixed))

    def _asks(self) -> dict[str, Ask]:
        """How everybody asks now; tenants and priorities are few, and looked up once."""
        tenant, rank = cache(self._tenant), cache(self._rank)
        asks = dict[str, Ask]()
        for name, known in self._others.items():
            turn = (rank(known.priority_class), known.created_s, name)
            asks[name] = Ask(tenant(name.split("/", 2)[1], known.queue), turn, name in self._fixed)
        for name, work in self._all.items():
            if not work.ended:
                known, counts = _known(work), _runs(work)
                turn = (rank(known.priority_class), known.created_s, name)
                asks[name] = Ask(tenant(name.split("/", 2)[1], known.queue), turn, counts or name in self._fixed)
        return asks

    def _rank(self, priority_class: str) -> int:
        """Whose turn is first has the least: of those that can start the highest priority."""
        value = self._priority(priority_class)
        return LAST if value is None else -value

    def _tenant(self, namespace: str, queue: str) -> str:
        """The queue where it is served and takes work of the namespace, else the namespace, told apart by a slash."""
        return queue if queue and self._admits(namespace, queue) else f"{namespace}/"

    def _hold(self) -> None:
        """Take in whom something is kept for, and nobody for whom nothing is any more."""
        before, self._fixed = self._fixed, self._kept.union(*self._remembered.values())
        for name in before ^ self._fixed:
            work, known = self._all.get(name), self._others.get(name)
            if work is not None and not work.ended:
                self._ask(name, _known(work), counts=_runs(work))
            elif known is not None:
                self._ask(name, known, counts=False)
                self._want([name])

    def _remove(self, name: str) -> None:
        if self._all.pop(name, None) is not None:
            self.touch(name)

    def _gather(self) -> None:
        if self._intake.unsettled >= GATHERED:
            self.settle()


def _runs(work: Work) -> bool:
    """Whether it may hold GPUs now, and is taken in whatever comes: not while it asks for no pod, which costs nobody
    anything and would let whoever makes such objects take all places there are. Without a set its size is not known."""
    return not (work.suspended or work.manager) and (not work.sets or any(each.pods for each in work.sets))


def _known(work: Work) -> Untaken:
    queue = "" if work.says is None or work.manager else sys.intern(work.says.queue)
    return Untaken(queue, sys.intern(work.priority_class), work.created_s)
