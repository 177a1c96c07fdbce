{{/* The name of everything in the release. A Service's begins with a letter and has no dot, unlike a release's. */}}
{{- define "minikafka-monitoring.name" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "minikafka-%s" $name }}{{ end -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* "prometheus" is whom brokers' NetworkPolicies let in. */}}
{{- define "minikafka-monitoring.selector" -}}
app.kubernetes.io/name: prometheus
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "minikafka-monitoring.labels" -}}
app.kubernetes.io/name: minikafka-monitoring
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: monitoring
app.kubernetes.io/part-of: minikafka
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* "yes" where the Prometheus Operator scrapes. */}}
{{- define "minikafka-monitoring.operated" -}}
{{- if or (eq .Values.mode "operator") (and (eq .Values.mode "auto") (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/PodMonitor")) -}}
yes
{{- end -}}
{{- end -}}

{{/* The namespaces with clusters, as a JSON list. */}}
{{- define "minikafka-monitoring.namespaces" -}}
{{- $found := list -}}
{{- range .Values.clusters -}}{{- $found = append $found .namespace -}}{{- end -}}
{{- $found | default (list .Release.Namespace) | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/*
Brokers that are scraped in the same way, as a JSON list: those without a token all together, of each cluster with one its own. Each has a
job, its clusters, and the cluster whose token it is.
*/}}
{{- define "minikafka-monitoring.groups" -}}
{{- $open := list -}}{{- $secured := list -}}
{{- range .Values.clusters -}}
  {{- if .securedMetrics -}}{{- $secured = append $secured . -}}{{- else -}}{{- $open = append $open . -}}{{- end -}}
{{- end -}}
{{- $found := list (dict "job" "minikafka-brokers" "clusters" $open) -}}
{{- range $secured -}}
  {{- $found = append $found (dict "job" (printf "minikafka-brokers-%s-%s" .namespace .name) "clusters" (list .) "secured" .) -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* The pods of clusters with a token, as a regular expression of namespace/pod; empty where there are none. */}}
{{- define "minikafka-monitoring.securedPods" -}}
{{- $found := list -}}
{{- range .Values.clusters -}}
  {{- if .securedMetrics -}}{{- $found = append $found (printf "%s/%s-broker-[0-9]+" .namespace .name) -}}{{- end -}}
{{- end -}}
{{- join "|" $found -}}
{{- end -}}

{{/* The files of rules that are wanted, as a JSON list. */}}
{{- define "minikafka-monitoring.rules" -}}
{{- $found := list -}}
{{- if .Values.rules.alerts -}}{{- $found = append $found "minikafka" -}}{{- end -}}
{{- if and .Values.rules.alerts .Values.operator.namespace -}}{{- $found = append $found "operator" -}}{{- end -}}
{{- if .Values.rules.kafkaNames -}}{{- $found = append $found "kafka-names" -}}{{- end -}}
{{- if .Values.rules.containerNames -}}{{- $found = append $found "container-names" -}}{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/*
Who a target is, as a JSON list of label and value. They are made from "namespace/pod", by (.+)/(.+)-broker-([0-9]+). Strimzi calls pods
CLUSTER-kafka-N, and its alerts ask for that: so kubernetes_pod_name is what it would be there, and pod what it is.
*/}}
{{- define "minikafka-monitoring.identity" -}}
{{- list
  (dict "label" "namespace" "value" "$1")
  (dict "label" "pod" "value" "$2-broker-$3")
  (dict "label" "cluster" "value" "$2")
  (dict "label" "broker" "value" "$3")
  (dict "label" "container" "value" "kafka")
  (dict "label" "kubernetes_pod_name" "value" "$2-kafka-$3")
  (dict "label" "strimzi_io_cluster" "value" "$2")
  (dict "label" "strimzi_io_name" "value" "$2-kafka")
  (dict "label" "strimzi_io_kind" "value" "Kafka")
| toJson -}}
{{- end -}}

{{/* The reference of an image of the values: by digest where it has one, else by tag. */}}
{{- define "minikafka-monitoring.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end -}}
