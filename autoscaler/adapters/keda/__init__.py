"""KEDA's external scaler, as its operator really calls it.

Enters: calls over gRPC with a ScaledObject's name and its trigger's metadata. Leaves: a metric's spec and value,
whether the workload should run, or a status code and the reason in words. It knows neither Kubernetes nor how a count
is decided.
"""
