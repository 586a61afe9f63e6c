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
{{- if .Values.certificates.http -}}
{{- $tls := dict "cert_file" "/etc/headroom/tls/tls.crt" "key_file" "/etc/headroom/tls/tls.key" "ca_file" "/etc/headroom/tls/ca.crt" "server_name" (include "headroom.http.name" .) -}}
{{- $_ := set $own "http" (dict "tls" $tls) -}}
{{- end -}}
{{- if .Values.audit.enabled -}}
{{- $_ := set $own "audit" (dict "directory" "/var/lib/headroom/audit") -}}
{{- end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.settings) $own) -}}
{{- end -}}

{{- /* Whether there is a certificate at all. */ -}}
{{- define "headroom.certified" -}}
{{- $settings := include "headroom.settings" . | fromYaml -}}
{{- if and (or $settings.keda.enabled .Values.certificates.http) (ne .Values.certificates.source "none") }}true{{ end -}}
{{- end -}}

{{- define "headroom.http.name" -}}
{{ include "headroom.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "headroom.http.url" -}}
{{- $settings := include "headroom.settings" . | fromYaml -}}
{{ ternary "https" "http" .Values.certificates.http }}://{{ include "headroom.fullname" . }}.{{ .Release.Namespace }}{{ if .Values.certificates.http }}.svc{{ end }}:{{ $settings.http.port }}
{{- end -}}

{{- /* What a monitor needs to know of the port, besides its name. */ -}}
{{- define "headroom.http.monitored" -}}
{{- $settings := include "headroom.settings" . | fromYaml -}}
{{- if .Values.certificates.http }}
scheme: https
tlsConfig:
  serverName: {{ include "headroom.http.name" . }}
  ca: {secret: {name: {{ include "headroom.tlsSecret" . }}, key: ca.crt}}
{{- end }}
{{- if $settings.http.authorize }}
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
{{- end -}}

{{- define "headroom.tlsSecret" -}}
{{- if eq .Values.certificates.source "secret" -}}
{{- .Values.certificates.secretName -}}
{{- else -}}
{{- include "headroom.fullname" . }}-keda-tls
{{- end -}}
{{- end -}}

{{- define "headroom.certificate.names" -}}
{{- $settings := include "headroom.settings" . | fromYaml -}}
{{- $names := list -}}
{{- $services := list -}}
{{- if $settings.keda.enabled }}{{ $services = append $services $settings.keda.service }}{{ end -}}
{{- if .Values.certificates.http }}{{ $services = append $services (include "headroom.fullname" .) }}{{ end -}}
{{- range $services -}}
{{- $service := printf "%s.%s" . $.Release.Namespace -}}
{{- $names = concat $names (list $service (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service)) -}}
{{- end -}}
{{- /* What a person who forwards the port asks for. */ -}}
{{- if .Values.certificates.http }}{{ $names = append $names "localhost" }}{{ end -}}
{{- toJson $names -}}
{{- end -}}
