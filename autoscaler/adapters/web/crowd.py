"""How many connections one address may hold, and when one is given up to which nobody listens.

Enters: connections, as a listening socket takes them. Leaves: the same ones, of each address so many at most. Whoever
comes is let in; the one of that address on which nothing was heard for longest goes. Turned away would be whoever
shares the address: a probe, a person behind the same proxy.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

MOST_OF_ADDRESS: Final = 128
"""Connections of one address. A scraper has one or two, a browser six; each costs 9 kB, those of a proxy's people
share its own."""


class Spoken(Protocol):
    """What speaks on a connection: the part of asyncio's protocols that HTTP uses."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        ...

    def data_received(self, data: bytes) -> None:
        """Take what was heard."""
        ...

    def eof_received(self) -> bool | None:
        """The other side says no more."""
        ...

    def pause_writing(self) -> None:
        """What was said is not taken."""
        ...

    def resume_writing(self) -> None:
        """It is taken again."""
        ...


class Crowd:
    """A factory of protocols for a listening socket; `speaks` makes what speaks on each connection."""

    def __init__(self, speaks: Callable[[], Spoken]) -> None:
        self._speaks = speaks
        self._of: dict[str, OrderedDict[_Connection, None]] = {}
        """Address -> its connections, the one that was heard longest ago first; none is empty."""

    def __call__(self) -> asyncio.Protocol:
        """What a new connection is given to."""
        return _Connection(self, self._speaks())

    def came(self, connection: "_Connection") -> None:
        """Count a connection in, and one of its address out if they are too many."""
        mine = self._of.setdefault(connection.address, OrderedDict())
        mine[connection] = None
        if len(mine) > MOST_OF_ADDRESS:
            mine.popitem(last=False)[0].abort()

    def heard(self, connection: "_Connection") -> None:
        """Something was heard on a connection."""
        mine = self._of.get(connection.address)
        if mine is not None and connection in mine:
            mine.move_to_end(connection)

    def went(self, connection: "_Connection") -> None:
        """Count a connection out."""
        mine = self._of.get(connection.address)
        if mine is not None:
            mine.pop(connection, None)
            if not mine:
                del self._of[connection.address]


class _Connection(asyncio.Protocol):
    """One connection, which is counted while it lasts."""

    def __init__(self, crowd: Crowd, speaks: Spoken) -> None:
        self.address = ""
        self._crowd = crowd
        self._speaks = speaks
        self._transport: asyncio.BaseTransport | None = None

    def abort(self) -> None:
        """End it at once, with what was not taken."""
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.address = (transport.get_extra_info("peername") or ("",))[0]
        self._speaks.connection_made(transport)
        self._crowd.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.went(self)
        self._speaks.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._crowd.heard(self)
        self._speaks.data_received(data)

    def eof_received(self) -> bool | None:
        return self._speaks.eof_received()

    def pause_writing(self) -> None:
        self._speaks.pause_writing()

    def resume_writing(self) -> None:
        self._speaks.resume_writing()
