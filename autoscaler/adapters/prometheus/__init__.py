"""Prometheus: a second source of signals where pods are not asked directly, and the history of load.

Enters: endpoints that the administrator named, targets, workloads. Leaves: metric samples and arrays of past load. No
policy carries a URL, and nothing a policy carries becomes part of a query but as a quoted value: whoever may edit a
policy could otherwise read the metrics of others or have the controller's token sent to him (CVE-2026-18381).
"""
