"""Scale: from needs to one number of replicas: proposals, arbitration, then ordered bounds, each leaving a step.

In: needs in requests/s and replicas as arrays, with capacities and lead times. Out: the count and, for every bound,
the count before and after. Soft bounds first, hard limits last; nothing after them may change the number.
"""
