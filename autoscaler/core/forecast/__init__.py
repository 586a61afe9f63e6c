"""Forecast: what the load will need when a replica ordered now can serve.

In: history bins, the lead time as a horizon in bins, fitted models as arrays. Out: an upper quantile of the need over
the minute after the horizon, with the model in force, its coverage and its score against last value. Models are
evaluated here and never fitted; it knows nothing of replicas.
"""
