{{- /* Settings that contradict each other, each with what to change. */ -}}
{{- define "headroom.validate" -}}
{{- include "headroom.validate.pod" . -}}
{{- include "headroom.validate.names" . -}}
{{- include "headroom.validate.network" . -}}
{{- $settings := include "headroom.settings" . | fromYaml -}}
{{- $given := .Values.settings -}}
{{- $keda := $settings.keda -}}
{{- $source := .Values.certificates.source -}}
{{- $acts := has $settings.default_mode (list "Active" "PausedScaleIn" "PausedScaleOut") -}}
{{- if and $acts (not .Values.rbac.scaling) -}}
{{- fail (printf "settings.default_mode is %s, but rbac.scaling is false: the controller may not change a count; set rbac.scaling to true, or settings.default_mode to Shadow" $settings.default_mode) -}}
{{- end -}}
{{- if and $settings.deletion_cost (not .Values.rbac.scaling) -}}
{{- fail "settings.deletion_cost is true, but rbac.scaling is false: nothing is shrunk; leave one of them out" -}}
{{- end -}}
{{- if and (not .Values.rbac.nodes) (not $settings.watch_namespaces) -}}
{{- fail "rbac.nodes is false, but settings.watch_namespaces is empty: an installation for all namespaces reads nodes; list the namespaces, or set rbac.nodes to true" -}}
{{- end -}}
{{- if and (not .Values.rbac.nodes) (hasKey ($given.budgets | default dict) "cluster_gpus") -}}
{{- fail "settings.budgets.cluster_gpus is given, but rbac.nodes is false: the cluster's GPUs cannot be counted; set rbac.nodes to true, or leave the budget out" -}}
{{- end -}}
{{- if and $settings.warm_pools.enabled (not .Values.rbac.nodes) -}}
{{- fail "settings.warm_pools.enabled is true, but rbac.nodes is false: warm pools are about nodes; set rbac.nodes to true, or leave warm pools out" -}}
{{- end -}}
{{- if and $settings.batch.enabled (not .Values.rbac.nodes) -}}
{{- fail "settings.batch.enabled is true, but rbac.nodes is false: gangs are placed on nodes; set rbac.nodes to true, or leave batch out" -}}
{{- end -}}
{{- if and .Values.rbac.trainJobs (not .Values.rbac.jobSets) -}}
{{- fail "rbac.trainJobs is true, but rbac.jobSets is false: the Trainer makes a JobSet of each, whose pods are held to nodes as those of others are; set rbac.jobSets to true, or leave rbac.trainJobs out" -}}
{{- end -}}
{{- range $kinds := list "jobSets" "trainingJobs" -}}
{{- if and (get $.Values.rbac $kinds) (not $settings.batch.enabled) -}}
{{- fail (printf "rbac.%s is true, but settings.batch.enabled is false: nothing is admitted; set settings.batch.enabled to true, or leave rbac.%s out" $kinds $kinds) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.rbac.podNamespaces (not $settings.batch.enabled) -}}
{{- fail "rbac.podNamespaces is given, but settings.batch.enabled is false: nothing is admitted; set settings.batch.enabled to true, or leave rbac.podNamespaces out" -}}
{{- end -}}
{{- range .Values.rbac.podNamespaces -}}
{{- if and $settings.watch_namespaces (not (has . $settings.watch_namespaces)) -}}
{{- fail (printf "rbac.podNamespaces has %s, which is none of settings.watch_namespaces: nothing is changed there; add it to them, or leave it out" .) -}}
{{- end -}}
{{- end -}}
{{- if and $settings.warm_pools.enabled (eq $settings.warm_pools.namespace .Release.Namespace) -}}
{{- fail (printf "settings.warm_pools.namespace is %s, where the controller is: slots need a namespace of their own; name another" .Release.Namespace) -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.create is false and serviceAccount.name is empty: rights would be given to the namespace's default account; name an account, or let the chart make one" -}}
{{- end -}}
{{- if and $keda.enabled (eq $source "none") (not $keda.plaintext) -}}
{{- fail "settings.keda.enabled is true, but certificates.source is none; choose helm, secret or certManager, or set settings.keda.plaintext to true to speak unencrypted" -}}
{{- end -}}
{{- if and $keda.enabled $keda.plaintext (ne $source "none") -}}
{{- fail (printf "settings.keda.plaintext is true, but certificates.source is %s; set certificates.source to none, or leave plaintext out" $source) -}}
{{- end -}}
{{- if and $keda.plaintext (not $keda.enabled) -}}
{{- fail "settings.keda.plaintext is true, but settings.keda.enabled is false: KEDA is not answered at all; enable it, or leave plaintext out" -}}
{{- end -}}
{{- if and .Values.certificates.http (eq $source "none") -}}
{{- fail "certificates.http is true, but certificates.source is none; choose helm, secret or certManager, or leave certificates.http out" -}}
{{- end -}}
{{- if and $settings.http.authorize (not .Values.certificates.http) -}}
{{- fail "settings.http.authorize is true, but certificates.http is false: tokens could be read on their way; set certificates.http to true, or leave authorize out" -}}
{{- end -}}
{{- if and .Values.rbac.readers (not $settings.http.authorize) -}}
{{- fail "rbac.readers is given, but settings.http.authorize is false: nobody is asked who they are; set settings.http.authorize to true, or leave the readers out" -}}
{{- end -}}
{{- if and $settings.http.authorize .Values.monitoring.podMonitor.enabled -}}
{{- fail "monitoring.podMonitor is enabled, but settings.http.authorize is true: a PodMonitor cannot show Prometheus' own token; enable monitoring.serviceMonitor instead" -}}
{{- end -}}
{{- if and $settings.http.authorize (eq $settings.http.reader (include "headroom.serviceAccount" .)) -}}
{{- fail (printf "settings.http.reader is %s, the controller's own account, whose rights readers would have; choose another" $settings.http.reader) -}}
{{- end -}}
{{- $shown := or $keda.enabled .Values.certificates.http -}}
{{- if and $shown (eq $source "secret") (not .Values.certificates.secretName) -}}
{{- fail "certificates.source is secret, but certificates.secretName is empty; name a Secret of this namespace with tls.crt and tls.key" -}}
{{- end -}}
{{- if and .Values.certificates.secretName (ne $source "secret") -}}
{{- fail (printf "certificates.secretName is given, but certificates.source is %s; set certificates.source to secret, or leave the name out" $source) -}}
{{- end -}}
{{- $issued := .Values.certificates.certManager -}}
{{- if and $issued.issuer (ne $source "certManager") -}}
{{- fail (printf "certificates.certManager.issuer is given, but certificates.source is %s; set certificates.source to certManager, or leave the issuer out" $source) -}}
{{- end -}}
{{- $day := toDate "2006-01-02" "2000-01-01" -}}
{{- if ge (dateModify $issued.renewBefore $day | unixEpoch | int64) (dateModify $issued.duration $day | unixEpoch | int64) -}}
{{- fail (printf "certificates.certManager.renewBefore %s is not below duration %s: a certificate would be renewed before it is made; lower it" $issued.renewBefore $issued.duration) -}}
{{- end -}}
{{- if and $shown (eq $source "certManager") (not .Values.certificates.certManager.issuer) -}}
{{- fail "certificates.source is certManager, but certificates.certManager.issuer is empty; name an issuer" -}}
{{- end -}}
{{- if and $keda.enabled (eq $source "certManager") (eq .Values.certificates.certManager.issuerKind "Issuer") .Values.keda.clusterTriggerAuthentication (ne .Values.keda.namespace .Release.Namespace) -}}
{{- fail "certificates.certManager.issuerKind is Issuer, which makes no certificate in KEDA's namespace; use a ClusterIssuer, or set keda.clusterTriggerAuthentication to false and give KEDA a certificate yourself" -}}
{{- end -}}
{{- if ge (int .Values.certificates.helm.renewAfterDays) (int .Values.certificates.helm.validDays) -}}
{{- fail (printf "certificates.helm.renewAfterDays %d is not below validDays %d: certificates would expire before they are renewed; lower it" (int .Values.certificates.helm.renewAfterDays) (int .Values.certificates.helm.validDays)) -}}
{{- end -}}
{{- if and $keda.enabled (eq (int $keda.port) (int $settings.http.port)) -}}
{{- fail (printf "settings.keda.port and settings.http.port are both %d; change one" (int $keda.port)) -}}
{{- end -}}
{{- if and .Values.monitoring.serviceMonitor.enabled .Values.monitoring.podMonitor.enabled -}}
{{- fail "monitoring.serviceMonitor and monitoring.podMonitor are both enabled: every pod would be read twice and counted twice; enable one" -}}
{{- end -}}
{{- if and (hasKey $given "audit") (not .Values.audit.enabled) -}}
{{- fail "settings.audit is given, but audit.enabled is false: no decision is kept; set audit.enabled to true, or leave settings.audit out" -}}
{{- end -}}
{{- if and (not .Values.priorityClass.create) (ne (int .Values.priorityClass.value) 1000000) -}}
{{- fail "priorityClass.value is given, but priorityClass.create is false: the class exists and has a value already; leave the value out" -}}
{{- end -}}
{{- if ge (float64 $settings.lease.deadline_s) (float64 $settings.lease.duration_s) -}}
{{- fail (printf "settings.lease.deadline_s %v is not below duration_s %v; lower the deadline, or two replicas could write at once" $settings.lease.deadline_s $settings.lease.duration_s) -}}
{{- end -}}
{{- if ge (float64 $settings.lease.renew_s) (float64 $settings.lease.deadline_s) -}}
{{- fail (printf "settings.lease.renew_s %v is not below deadline_s %v; renew more often, or the lease is given up between two renewals" $settings.lease.renew_s $settings.lease.deadline_s) -}}
{{- end -}}
{{- if gt (float64 $settings.scrape.timeout_s) (float64 $settings.scrape.interval_s) -}}
{{- fail (printf "settings.scrape.timeout_s %v is above interval_s %v; lower the time-out" $settings.scrape.timeout_s $settings.scrape.interval_s) -}}
{{- end -}}
{{- if lt (float64 $settings.kube.burst) (float64 $settings.kube.qps) -}}
{{- fail (printf "settings.kube.burst %v is below qps %v; raise burst or lower qps" $settings.kube.burst $settings.kube.qps) -}}
{{- end -}}
{{- $budgets := $given.budgets | default dict -}}
{{- if hasKey $budgets "cluster_gpus" -}}
{{- range $namespace, $gpus := $budgets.namespaces -}}
{{- if gt (int $gpus) (int $budgets.cluster_gpus) -}}
{{- fail (printf "settings.budgets.namespaces.%s %d is above cluster_gpus %d; lower it or raise cluster_gpus" $namespace (int $gpus) (int $budgets.cluster_gpus)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $prometheus := $settings.prometheus -}}
{{- range $field := list "bearer_token_file" "ca_file" -}}
{{- $file := get $prometheus $field -}}
{{- if $file -}}
{{- $mounted := false -}}
{{- range $.Values.secretMounts }}{{ if hasPrefix (printf "%s/" .path) $file }}{{ $mounted = true }}{{ end }}{{ end -}}
{{- if not $mounted -}}
{{- fail (printf "settings.prometheus.%s.%s is %s, but no entry of secretMounts has a path above it; mount the Secret that holds the file" $name $field $file) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $scaled := list -}}
{{- range $settings.kinds -}}
{{- $named := printf "%s of group %q" .kind (.group | default "") -}}
{{- if has $named $scaled -}}
{{- fail (printf "settings.kinds names %s twice; list one version of it" $named) -}}
{{- end -}}
{{- $scaled = append $scaled $named -}}
{{- if has (printf "%s/%s" (.group | default "") .resource) (list "/pods" "/secrets" "/configmaps" "/nodes" "/services" "apps/daemonsets" "batch/jobs" "batch/cronjobs") -}}
{{- fail (printf "settings.kinds names %s, which serves no /scale; take it off the list" .kind) -}}
{{- end -}}
{{- end -}}
{{- range $name, $shape := $settings.shapes -}}
{{- $sharing := $shape.sharing | default "whole" -}}
{{- if ne (eq $sharing "whole") (eq (int ($shape.parts | default 1)) 1) -}}
{{- fail (printf "settings.shapes.%s has sharing %s and parts %d; whole GPUs have 1 part, shared ones more: change one" $name $sharing (int ($shape.parts | default 1))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
