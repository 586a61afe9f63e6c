"""Batch work in a simulated cluster: gangs of nodes' GPUs, recorded or drawn, under several policies, beside bounds.

In: a case (nodes, tenants, jobs). Out: what became of every job, scores, and what no policy could beat. Time goes from
event to event. No policy knows how long a job will run, but for what it says; unless a case has it otherwise, that is
the truth.
"""
