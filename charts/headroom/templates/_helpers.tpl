{{- define "headroom.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "headroom.fullname" -}}
{{- $name := include "headroom.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "headroom.selector" -}}
app.kubernetes.io/name: {{ include "headroom.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headroom.labels" -}}
{{ include "headroom.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "headroom.pods" -}}
{{ include "headroom.selector" . }}
app.kubernetes.io/component: controller
{{- end -}}

{{- define "headroom.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "headroom.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "headroom.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "headroom.priorityClass" -}}
{{- if .Values.priorityClass.create -}}
{{- default (include "headroom.fullname" .) .Values.priorityClass.name -}}
{{- else -}}
{{- .Values.priorityClass.name -}}
{{- end -}}
{{- end -}}

{{- /* What the settings say where they say nothing: the defaults that templates need, as the code has them. */ -}}
{{- define "headroom.settings" -}}
{{- $defaults := .Files.Get "files/defaults.yaml" | fromYaml -}}
{{- $given := deepCopy .Values.settings -}}
{{- $merged := mergeOverwrite $defaults $given -}}
{{- toYaml $merged -}}
{{- end -}}

{{- define "headroom.ownedSettings" -}}
{{- $own := dict "namespace" .Release.Namespace -}}
{{- $settings := include "headroom.settings" . | fromYaml -}}
{{- if and $settings.keda.enabled (ne .Values.certificates.source "none") -}}
{{- $tls := dict "cert_file" "/etc/headroom/tls/tls.crt" "key_file" "/etc/headroom/tls/tls.key" -}}
{{- if .Values.certificates.verifyClients -}}
{{- $_ := set $tls "client_ca_file" "/etc/headroom/tls/ca.crt" -}}
{{- if .Values.certificates.clientNames -}}
{{- $_ := set $tls "client_names" .Values.certificates.clientNames -}}
{{- end -}}
{{- end -}}
{{- $_ := set $own "keda" (dict "tls" $tls) -}}
{{- end -}}
{{- if .Values.audit.enabled -}}
{{- $_ := set $own "audit" (dict "directory" "/var/lib/headroom/audit") -}}
{{- end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.settings) $own) -}}
{{- end -}}

{{- define "headroom.keda.tlsSecret" -}}
{{- if eq .Values.certificates.source "secret" -}}
{{- .Values.certificates.secretName -}}
{{- else -}}
{{- include "headroom.fullname" . }}-keda-tls
{{- end -}}
{{- end -}}

{{- define "headroom.keda.names" -}}
{{- $settings := include "headroom.settings" . | fromYaml -}}
{{- $service := printf "%s.%s" $settings.keda.service .Release.Namespace -}}
{{- list $service (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service) | toJson -}}
{{- end -}}
