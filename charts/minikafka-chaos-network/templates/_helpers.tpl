{{/* The name of everything in the release. */}}
{{- define "minikafka-chaos-network.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of what belongs to no namespace: releases of two namespaces may have one name. A namespace has no dot. */}}
{{- define "minikafka-chaos-network.clusterName" -}}
{{- printf "%s.%s" .Release.Namespace (include "minikafka-chaos-network.name" .) -}}
{{- end -}}

{{- define "minikafka-chaos-network.selector" -}}
app.kubernetes.io/name: minikafka-chaos-network
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "minikafka-chaos-network.labels" -}}
{{ include "minikafka-chaos-network.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: network-agent
app.kubernetes.io/part-of: minikafka
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Who may ask about every namespace, as the API server calls them; a JSON list. */}}
{{- define "minikafka-chaos-network.everywhere" -}}
{{- $users := .Values.users | default list -}}
{{- range .Values.controllers -}}
{{- $users = append $users (printf "system:serviceaccount:%s:%s" .namespace .serviceAccountName) -}}
{{- end -}}
{{- $users | toJson -}}
{{- end -}}

{{/* Who may ask about one namespace: a JSON object of user and namespace. */}}
{{- define "minikafka-chaos-network.own" -}}
{{- $users := dict -}}
{{- range .Values.namespaces -}}
{{- $_ := set $users (printf "system:serviceaccount:%s:%s" . $.Values.runner.serviceAccountName) . -}}
{{- end -}}
{{- $users | toJson -}}
{{- end -}}

{{/* The reference of an image of the values: by digest where it has one, else by tag. "root" knows the chart's appVersion. */}}
{{- define "minikafka-chaos-network.image" -}}
{{- with .image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.root.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}
