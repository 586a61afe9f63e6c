{{- /* Names that two would have, and connections that the network policy would silently cut. */ -}}

{{- define "headroom.validate.names" -}}
{{- $settings := include "headroom.settings" . | fromYaml -}}
{{- $name := include "headroom.fullname" . -}}
{{- $pools := $settings.warm_pools -}}
{{- $class := include "headroom.priorityClass" . -}}
{{- if and $settings.keda.enabled (eq $settings.keda.service $name) -}}
{{- fail (printf "settings.keda.service is %s, the name of the Service for HTTP; choose another" $name) -}}
{{- end -}}
{{- $maps := list $name -}}
{{- range $path, $_ := .Files.Glob "dashboards/*.json" }}{{ $maps = append $maps (printf "%s-dashboard-%s" $name (base $path | trimSuffix ".json")) }}{{ end -}}
{{- if has $settings.freeze_config_map $maps -}}
{{- fail (printf "settings.freeze_config_map is %s, a ConfigMap of this chart, which would freeze all action; choose another" $settings.freeze_config_map) -}}
{{- end -}}
{{- if and .Values.priorityClass.create (hasPrefix "system-" $class) -}}
{{- fail (printf "priorityClass.name %s begins with system-, which is Kubernetes' own; choose another, or set priorityClass.create to false to use it" $class) -}}
{{- end -}}
{{- if and $pools.enabled .Values.priorityClass.create (eq $class $pools.priority_class) -}}
{{- fail (printf "priorityClass.name and settings.warm_pools.priority_class are both %s: slots give way to what the controller outlives; change one" $class) -}}
{{- end -}}
{{- if and $pools.enabled (or (has $pools.namespace $settings.watch_namespaces) (and $settings.keda.enabled (eq $pools.namespace .Values.keda.namespace))) -}}
{{- fail (printf "settings.warm_pools.namespace is %s, where something else is: nothing but slots is admitted there; name another" $pools.namespace) -}}
{{- end -}}
{{- if and .Values.serviceAccount.create (eq .Values.serviceAccount.name "default") -}}
{{- fail "serviceAccount.name is default, which every namespace has already; choose another" -}}
{{- end -}}
{{- $own := include "headroom.labels" . | fromYaml -}}
{{- range $part := list "serviceMonitor" "podMonitor" "rules" "dashboards" -}}
{{- range $label, $value := (get $.Values.monitoring $part).labels -}}
{{- if hasKey $own $label -}}
{{- fail (printf "monitoring.%s.labels has %s, which the chart sets; choose another key" $part $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "headroom.validate.network" -}}
{{- $settings := include "headroom.settings" . | fromYaml -}}
{{- $policy := .Values.networkPolicy -}}
{{- $ports := dict "settings.http.port" $settings.http.port -}}
{{- if $settings.keda.enabled }}{{ $_ := set $ports "settings.keda.port" $settings.keda.port }}{{ end -}}
{{- range $setting, $port := $ports -}}
{{- if lt (int $port) 1024 -}}
{{- fail (printf "%s is %d, which a user without capabilities may not open everywhere; choose 1024 or above" $setting (int $port)) -}}
{{- end -}}
{{- end -}}
{{- if $policy.enabled -}}
{{- $monitored := or .Values.monitoring.serviceMonitor.enabled .Values.monitoring.podMonitor.enabled -}}
{{- if and $monitored (not $policy.httpFrom) (not $settings.gateways) -}}
{{- fail "monitoring reads metrics, but networkPolicy.httpFrom is empty: Prometheus is not let in; name its namespace there" -}}
{{- end -}}
{{- $called := concat $settings.watch_namespaces $policy.callNamespaces (include "headroom.besideNamespaces" . | fromJsonArray) -}}
{{- range $name, $prometheus := $settings.prometheus -}}
{{- if not $policy.callCidrs -}}
{{- $url := urlParse $prometheus.url -}}
{{- $labels := splitList "." (regexReplaceAll ":[0-9]+$" $url.host "") -}}
{{- if and (not (hasPrefix "[" $url.host)) (or (le (len $labels) 2) (eq (index $labels 2) "svc")) -}}
{{- $where := $.Release.Namespace -}}
{{- if gt (len $labels) 1 }}{{ $where = index $labels 1 }}{{ end -}}
{{- if and $settings.watch_namespaces (not (has $where $called)) -}}
{{- fail (printf "settings.prometheus.%s.url is in the namespace %s, which networkPolicy lets nobody call; add it to networkPolicy.callNamespaces" $name $where) -}}
{{- end -}}
{{- else -}}
{{- $port := default (ternary "443" "80" (eq $url.scheme "https")) (trimPrefix ":" (regexFind ":[0-9]+$" $url.host)) -}}
{{- $open := false -}}
{{- range $policy.apiServerPorts }}{{ if eq (int .) (int $port) }}{{ $open = true }}{{ end }}{{ end -}}
{{- if or $policy.apiServerCidrs (not $open) -}}
{{- fail (printf "settings.prometheus.%s.url is outside of the cluster, where networkPolicy lets nobody call; add its address to networkPolicy.callCidrs" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
