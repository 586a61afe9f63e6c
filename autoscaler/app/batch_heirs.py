"""What books of batch work that are written anew, because queues changed, take over from those before them.

Enters: both. Leaves: what was counted, told, left alone for a while, and since when who leaves does, in the new ones.
What stands in the cluster is read there, and what is kept for whom is packed.
"""

from autoscaler.app.batch_books import Books
from autoscaler.app.batch_rests import unstopped


def inherit(books: Books, old: Books) -> None:
    """Go on from books that were written by other queues. These are open, and have not taken anything in yet: who is
    left alone must not be taken for one that waits, and what they count from now on adds up."""
    works = books.cluster.works
    old.tally.written({work.name for work, _ in unstopped(works, old.room.runs.all)})
    books.tally.inherit(old.tally)
    books.loans.recalls.inherit(old.loans.recalls)
    books.asks.inherit(old.asks)
    books.undone.inherit(old.undone)
    told = {name: run.told_s for name, run in old.room.runs.all.items() if name in works and works[name].suspended}
    books.room.leaving_since = {name: since_s for name, since_s in told.items() if since_s is not None}
    books.started.update({name: since for name, since in old.started.items() if name in works})
    books.rests.all.update({name: rest for name, rest in old.rests.all.items() if name in works})
    books.notes.update({name: note for name, note in old.notes.items() if name in books.rests.all})
