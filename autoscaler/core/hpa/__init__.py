"""What Kubernetes' HorizontalPodAutoscaler makes of a number it is told, computed beforehand.

Enters: an HPA's own settings, what it sees and what it remembers. Leaves: the count it sets and what limited it. Source
of every rule here: kubernetes/kubernetes v1.36, pkg/controller/podautoscaler and pkg/apis/autoscaling/v2/defaults.go.
"""
