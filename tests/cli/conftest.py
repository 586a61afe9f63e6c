"""Commands that run an event loop start without a current one; see `tests/web/conftest.py` for the reason."""

import asyncio
import sys

if sys.version_info < (3, 12):
    asyncio.set_event_loop(None)
