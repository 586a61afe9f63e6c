"""Open-loop load on an OpenAI-compatible service.

Requests are sent when they are due, whatever became of those before, and every latency counts from the instant at which
the request was due. A service that stalls therefore shows the stall in all requests that were due in it.
"""

from loadtests.traffic.command import main

__all__ = ["main"]
