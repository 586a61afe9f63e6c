"""Asynchronous tests start without a current event loop; see `tests/web/conftest.py` for the reason."""

import asyncio
import sys

if sys.version_info < (3, 12):
    asyncio.set_event_loop(None)
