"""The simulated driver: a plant with cold starts and failures, serving models, traffic, rivals, bounds and scores.

It imports the core, the fitting, the record and the errors; never the live runtime, never an adapter.
"""
