"""Warm pools: how many slots to keep warm, where, and what to do about each of them now.

In: what an API server shows of slots, nodes, claims and demand. Out: intents (create, delete, mark, patch), a target
with the steps that led to it, and conditions. It knows no Kubernetes, no clock of its own, and no other stage.
"""
