"""Batch admission: which waiting gang gets which GPUs now, who gives way, and why the others wait.

In: queues, gangs, and what an API server shows of nodes and pods. Out: admissions with their nodes, evictions with
their cost, reservations, and verdicts. It knows no Kubernetes, no clock of its own, and no other stage. All numbers of
GPUs are units of a shape: whole GPUs, or slices where the shape is one.
"""
