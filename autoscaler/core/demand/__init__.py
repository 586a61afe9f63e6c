"""Demand: what the measured load asks for, apart from any forecast.

The SLO budget (how much lateness may still be spent), the present rate, episodes above capacity (burst or noise), the
highest demand of the day, idleness. In: rates, queues and capacities as arrays. Out: levels, probabilities, peaks. It
knows nothing of bounds.
"""
