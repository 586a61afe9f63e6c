"""Prometheus: a second source of signals where pods are not asked directly, and the past of whole clusters.

Enters: endpoints that the administrator named, or a person at a terminal; targets, workloads, windows. Leaves: metric
samples of now, and rows of the past with what is missing of them. No policy carries a URL, and nothing a policy carries
becomes part of a query but as a quoted value: whoever may edit a policy could otherwise read the metrics of others or
have the controller's token sent to him (CVE-2026-18381).
"""
