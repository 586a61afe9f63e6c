{{- /* What the controller may do, by feature. config/rbac grants the same, and a test compares the two. */ -}}

{{- define "headroom.besideNamespaces" -}}
{{- $settings := include "headroom.settings" . | fromYaml -}}
{{- $found := list -}}
{{- range $settings.gateways }}{{ $found = append $found .namespace }}{{ end -}}
{{- if kindIs "map" .Values.settings.gpu_exporter -}}
{{- $found = append $found (default "gpu-operator" .Values.settings.gpu_exporter.namespace) -}}
{{- end -}}
{{- $found | uniq | sortAlpha | toJson -}}
{{- end -}}

{{- define "headroom.rights.reading" -}}
- apiGroups: [""]
  resources: [pods, resourcequotas, limitranges]
  verbs: [list, watch]
{{- range .settings.kinds }}
- apiGroups: [{{ .group | default "" | quote }}]
  resources: [{{ .resource }}]
  verbs: [list, watch]
{{- end }}
- apiGroups: [headroom.dev]
  resources: [scalingpolicies]
  verbs: [list, watch]
# Others that set replicas or sizes of the same targets; they are told of and left alone.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [list, watch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers]
  verbs: [list, watch]
# Of others' events only the kubelet's word that an image was pulled is read.
- apiGroups: [""]
  resources: [events]
  verbs: [list, watch]
{{- end -}}

{{- define "headroom.rights.recording" -}}
- apiGroups: [headroom.dev]
  resources: [scalingpolicies/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- define "headroom.rights.scaling" -}}
{{- range .settings.kinds }}
- apiGroups: [{{ .group | default "" | quote }}]
  resources: [{{ .resource }}/scale]
  verbs: [get, patch]
{{- end }}
{{- if .settings.deletion_cost }}
# Marks the pods that should go first. It lets the controller change any pod's annotations, labels and images.
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end }}
{{- end -}}

{{- define "headroom.rights.nodes" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end -}}

{{- define "headroom.rights.gateways" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end -}}

{{- define "headroom.rights.own" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ .settings.lease.name }}]
  verbs: [get, patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ .settings.freeze_config_map }}]
  verbs: [list, watch]
# What is kept: an index each, and two copies of up to 32 shards. A name that is still to be made cannot be given here.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames:
{{- range $kept := list "checkpoint" "warmup" "shadow" "pools" }}
    - {{ $.settings.lease.name }}-{{ $kept }}-index
{{- range $slot := until 32 }}
    - {{ $.settings.lease.name }}-{{ $kept }}-{{ $slot }}-a
    - {{ $.settings.lease.name }}-{{ $kept }}-{{ $slot }}-b
{{- end }}
{{- end }}
  verbs: [get, update, delete]
{{- if .settings.keda.enabled }}
# The leader's label, by which the Service that KEDA asks finds its pod; a pod's name cannot be known here.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, patch]
{{- end }}
{{- end -}}

{{- define "headroom.rights.pools" -}}
- apiGroups: [headroom.dev]
  resources: [warmpools]
  verbs: [list, watch]
- apiGroups: [headroom.dev]
  resources: [warmpools/status]
  verbs: [patch]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
# Pods and nodes everywhere: what is on a node is what room it has, and whom its deletion would hit.
- apiGroups: [""]
  resources: [pods, nodes]
  verbs: [list, watch]
# Karpenter's word that there is no capacity stands in the namespace default, as do events about WarmPools.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch, list, watch]
- apiGroups: [karpenter.sh]
  resources: [nodeclaims]
  verbs: [list, watch, delete]
- apiGroups: [karpenter.sh]
  resources: [nodepools]
  verbs: [list, watch, create, patch]
{{- end -}}

{{- define "headroom.rights.batch" -}}
- apiGroups: [headroom.dev]
  resources: [batchqueues]
  verbs: [list, watch]
- apiGroups: [headroom.dev]
  resources: [batchqueues/status]
  verbs: [patch]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
# Pods and nodes everywhere: what is on a node is what room it has.
- apiGroups: [""]
  resources: [pods, nodes]
  verbs: [list, watch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch]
# Whose Job is Kueue's though it names no queue of it.
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- define "headroom.rights.admitting" -}}
# Sets suspend, and where the pods go. It lets the controller change what any Job runs; RBAC knows nothing narrower.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [patch]
{{- if .rbac.jobSets }}
# Sets suspend, and notes on the templates of pods. It lets the controller change any JobSet that JobSet's own webhook
# lets be changed; RBAC knows nothing narrower.
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [patch]
{{- end }}
{{- if .rbac.trainingJobs }}
# As for Jobs.
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs, tfjobs]
  verbs: [patch]
{{- end }}
{{- if .rbac.trainJobs }}
# Sets suspend, and overrides of pod templates. As for Jobs.
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [patch]
{{- end }}
{{- end -}}

{{- define "headroom.rights.jobsets" -}}
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [list, watch]
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingadmissionpolicies, mutatingadmissionpolicybindings]
  verbs: [list, watch]
{{- end -}}

{{- define "headroom.rights.trainingjobs" -}}
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs, tfjobs]
  verbs: [list, watch]
{{- end -}}

{{- define "headroom.rights.trainjobs" -}}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs, trainingruntimes, clustertrainingruntimes]
  verbs: [list, watch]
{{- end -}}

{{- define "headroom.rights.http" -}}
# Looks up who asks over HTTP.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
# The follower asks the leader.
- nonResourceURLs: [/headroom/api/snapshot]
  verbs: [get]
{{- end -}}

{{- define "headroom.rights.reader" -}}
- nonResourceURLs:
    - /headroom/
    - /headroom/events
    - /metrics
    - /headroom/api/status
    - /headroom/api/explain/*
    - /headroom/api/past
    - /headroom/api/pools
    - /headroom/api/pools/*
    - /headroom/api/batch
    - /headroom/api/batch/*
    - /headroom/api/overload
    - /headroom/api/overload/*
  verbs: [get]
{{- end -}}

{{- define "headroom.rights.pods" -}}
# Takes the gate of Headroom's away, and says where the pod goes. A policy sees to it that nothing else is changed.
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end -}}

{{- define "headroom.rights.slots" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [list, watch]
{{- end -}}
