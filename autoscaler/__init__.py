"""Headroom: an event-driven autoscaling controller for GPU inference on Kubernetes."""

__version__ = "0.1.0"
