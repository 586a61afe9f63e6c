"""Who gave way to whom, as long as both want to run: so that no exchange is undone, not even by way of others.

Enters: evictions with their beneficiaries, and gangs that want nothing any more. Leaves: for a gang that waits, all who
run at its expense. A claim to a fair share may not turn against them. Shares alone do not see to that: between two
exchanges the room that whole gangs leave over is taken by third ones, and the comparison comes out the other way.
"""


class Exchanges:
    """A graph from each gang to those that left for it; fair shares never close a ring in it."""

    def __init__(self) -> None:
        self._gave_to: dict[str, dict[str, None]] = {}
        self._took_from: dict[str, dict[str, None]] = {}

    def note(self, victim: str, beneficiary: str) -> bool:
        """A gang leaves for another; whether that is known only now."""
        gave = self._gave_to.setdefault(victim, {})
        is_new = beneficiary not in gave
        gave[beneficiary] = None
        self._took_from.setdefault(beneficiary, {})[victim] = None
        return is_new

    def undo(self, victim: str, beneficiary: str) -> None:
        """A gang did not leave for another after all."""
        for here, name, other in ((self._gave_to, victim, beneficiary), (self._took_from, beneficiary, victim)):
            known = here.get(name, {})
            known.pop(other, None)
            if not known:
                here.pop(name, None)

    def ahead_of(self, name: str) -> frozenset[str]:
        """Those for whom a gang left, those for whom they left in turn, and so on."""
        found: dict[str, None] = {}
        follow = [name]
        while follow:
            for other in self._gave_to.get(follow.pop(), ()):
                if other not in found:
                    found[other] = None
                    follow.append(other)
        return frozenset(found)

    def forget(self, name: str) -> None:
        """A gang wants nothing any more."""
        if name not in self._gave_to and name not in self._took_from:
            return
        for here, there in ((self._gave_to, self._took_from), (self._took_from, self._gave_to)):
            for other in here.pop(name, ()):
                del there[other][name]
                if not there[other]:
                    del there[other]
