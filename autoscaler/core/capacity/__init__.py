"""Capacity: what one replica can carry at the SLO, and how long a new one takes.

In: intervals (what was served while requests waited, and while none did), latencies, starts that ended. Out: requests
per second per replica with the term that binds it, lead-time quantiles with their stages, and which starts still
deserve credit. It knows nothing of forecasts or of the count to order.
"""
