{{/* The name of everything in the release. A Service's begins with a letter and has no dot, unlike a release's. */}}
{{- define "minikafka-operator.name" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "minikafka-%s" $name }}{{ end -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of what belongs to no namespace: releases of two namespaces may have one name. A namespace has no dot. */}}
{{- define "minikafka-operator.clusterName" -}}
{{- printf "%s.%s" .Release.Namespace (include "minikafka-operator.name" .) -}}
{{- end -}}

{{- define "minikafka-operator.selector" -}}
app.kubernetes.io/name: minikafka-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "minikafka-operator.labels" -}}
{{ include "minikafka-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: minikafka
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "minikafka-operator.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "minikafka-operator.name" .) -}}
{{- end -}}

{{/* The namespaces whose clusters the operator looks after, as a JSON list; empty: all of them. */}}
{{- define "minikafka-operator.namespaces" -}}
{{- if not .Values.watch.allNamespaces -}}
{{- .Values.watch.namespaces | default (list .Release.Namespace) | toJson -}}
{{- else if .Values.watch.namespaces -}}
{{- fail "watch.namespaces and watch.allNamespaces: give one of them" -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/* Whom the API server takes the operator for. */}}
{{- define "minikafka-operator.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "minikafka-operator.serviceAccount" . }}
{{- end -}}

{{/* What the operator may do where clusters are. It gives brokers a part of it, so it must have that part itself. */}}
{{- define "minikafka-operator.rules" -}}
- apiGroups: [minikafka.dev]
  resources: [minikafkaclusters]
  verbs: [get, list, watch, patch]
- apiGroups: [minikafka.dev]
  resources: [minikafkaclusters/status]
  verbs: [get, patch]
- apiGroups: [minikafka.dev]
  resources: [minikafkaclusters/finalizers]
  verbs: [update]
- apiGroups: [minikafka.dev]
  resources: [minikafkatopics]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [minikafka.dev]
  resources: [minikafkatopics/status]
  verbs: [get, update, patch]
- apiGroups: [minikafka.dev]
  resources: [minikafkausers]
  verbs: [get, list, watch, patch]
- apiGroups: [minikafka.dev]
  resources: [minikafkausers/status]
  verbs: [get, patch]
- apiGroups: [minikafka.dev]
  resources: [minikafkausers/finalizers]
  verbs: [update]
- apiGroups: [minikafka.dev]
  resources: [chaosexperiments]
  verbs: [get]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [""]
  resources: [secrets, services, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [list]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}

{{/* The reference of an image of the values: by digest where it has one, else by tag. "root" knows the chart's appVersion. */}}
{{- define "minikafka-operator.image" -}}
{{- with .image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.root.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}
