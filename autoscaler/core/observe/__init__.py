"""Observe: turns raw readings into intervals, history bins and a freshness per signal.

In: `Readings` of one workload and what was remembered of its pods. Out: an `Interval` of plain sums per workload, then
columns of history. Counters are differenced per pod, so that a restart, a new pod or a vanished pod never reads as
traffic. It knows nothing of capacity, forecasts or replicas to order.
"""
