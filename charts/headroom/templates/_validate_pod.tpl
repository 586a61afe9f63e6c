{{- /* What pods are given beside what the chart gives them, and what the API server would refuse only once half is installed. */ -}}

{{- define "headroom.quantity" -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- $unit := regexFind "[A-Za-z]+$" (toString .) -}}
{{- mulf (float64 (trimSuffix $unit (toString .))) (get $units $unit) -}}
{{- end -}}

{{- define "headroom.validate.pod" -}}
{{- range $name, $value := .Values.env -}}
{{- if hasPrefix "HEADROOM_" $name -}}
{{- fail (printf "env.%s would win over settings, which rights, ports and the network policy follow; leave it out and give settings.%s" $name (trimPrefix "HEADROOM_" $name | lower | replace "__" ".")) -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := .Values.podLabels -}}
{{- if has $name (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "headroom.dev/leader") -}}
{{- fail (printf "podLabels has %s, by which the chart finds its pods; choose another key" $name) -}}
{{- end -}}
{{- end -}}
{{- if hasKey (.Values.podAnnotations | default dict) "checksum/settings" -}}
{{- fail "podAnnotations has checksum/settings, by which changed settings roll the pods; choose another key" -}}
{{- end -}}
{{- range $index, $toleration := .Values.tolerations -}}
{{- $operator := $toleration.operator | default "Equal" -}}
{{- if and (eq $operator "Exists") $toleration.value -}}
{{- fail (printf "tolerations.%d has operator Exists and a value; leave the value out, or set operator to Equal" $index) -}}
{{- end -}}
{{- if and (eq $operator "Equal") (not $toleration.key) -}}
{{- fail (printf "tolerations.%d has no key; give one, or set operator to Exists to tolerate every taint" $index) -}}
{{- end -}}
{{- if and (hasKey $toleration "tolerationSeconds") (ne ($toleration.effect | default "") "NoExecute") -}}
{{- fail (printf "tolerations.%d has tolerationSeconds, but its effect is not NoExecute; set it, or leave tolerationSeconds out" $index) -}}
{{- end -}}
{{- end -}}
{{- $limits := .Values.resources.limits | default dict -}}
{{- range $name, $amount := .Values.resources.requests -}}
{{- $limit := get $limits $name -}}
{{- if hasKey $limits $name -}}
{{- if gt (include "headroom.quantity" $amount | float64) (include "headroom.quantity" $limit | float64) -}}
{{- fail (printf "resources.requests.%s %v is above resources.limits.%s %v; raise the limit or lower the request" $name $amount $name $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $taken := list "/tmp" "/opt/headroom" "/etc/headroom/settings" "/etc/headroom/tls" "/var/lib/headroom/audit" "/var/run/secrets/kubernetes.io/serviceaccount" -}}
{{- range .Values.secretMounts -}}
{{- $path := .path -}}
{{- range $taken -}}
{{- if or (eq . $path) (hasPrefix (printf "%s/" .) $path) (hasPrefix (printf "%s/" $path) .) -}}
{{- fail (printf "secretMounts has path %s, which would cover or lie in %s; choose another, such as /etc/headroom/secrets" $path .) -}}
{{- end -}}
{{- end -}}
{{- $taken = append $taken $path -}}
{{- end -}}
{{- end -}}
