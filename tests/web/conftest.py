"""Asynchronous tests start without a current event loop.

Python before 3.12 makes a loop for whoever asks for the current one; pytest-asyncio asks before its first test and
nobody closes what it gets, which the suite's rule that warnings are errors then reports in some other test.
"""

import asyncio
import sys

if sys.version_info < (3, 12):
    asyncio.set_event_loop(None)
