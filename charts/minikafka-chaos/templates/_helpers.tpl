{{/* The name of everything in the release. A Service's begins with a letter and has no dot, unlike a release's. */}}
{{- define "minikafka-chaos.name" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "minikafka-%s" $name }}{{ end -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of what belongs to no namespace: releases of two namespaces may have one name. A namespace has no dot. */}}
{{- define "minikafka-chaos.clusterName" -}}
{{- printf "%s.%s" .Release.Namespace (include "minikafka-chaos.name" .) -}}
{{- end -}}

{{- define "minikafka-chaos.selector" -}}
app.kubernetes.io/name: minikafka-chaos
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "minikafka-chaos.labels" -}}
{{ include "minikafka-chaos.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: chaos
app.kubernetes.io/part-of: minikafka
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "minikafka-chaos.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "minikafka-chaos.name" .) -}}
{{- end -}}

{{/* The reference of an image of the values: by digest where it has one, else by tag. "root" knows the chart's appVersion. */}}
{{- define "minikafka-chaos.image" -}}
{{- with .image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.root.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{/* The namespaces whose experiments are carried out, as a JSON list. */}}
{{- define "minikafka-chaos.namespaces" -}}
{{- .Values.watch.namespaces | default (list .Release.Namespace) | toJson -}}
{{- end -}}

{{/* Whom the API server takes the controller for. */}}
{{- define "minikafka-chaos.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "minikafka-chaos.serviceAccount" . }}
{{- end -}}

{{/* What runners ask agents for, and by which options. */}}
{{- define "minikafka-chaos.verbs" -}}
["state", "kill", "terminate", "pause", "resume", "release", "recover", "wipe-unflushed", "wipe-volume", "checkpoint", "logs", "events"]
{{- end -}}
{{- define "minikafka-chaos.options" -}}
["--id", "--seconds", "--mode", "--seed", "--topic"]
{{- end -}}

{{/* Whom the API server takes controller and runners for, as a JSON list. */}}
{{- define "minikafka-chaos.users" -}}
{{- $users := list (include "minikafka-chaos.user" .) -}}
{{- range include "minikafka-chaos.namespaces" . | fromJsonArray -}}
{{- $users = append $users (printf "system:serviceaccount:%s:%s" . $.Values.runner.serviceAccountName) -}}
{{- end -}}
{{- $users | toJson -}}
{{- end -}}

{{/* What the controller may do where experiments are. */}}
{{- define "minikafka-chaos.controllerRules" -}}
- apiGroups: [minikafka.dev]
  resources: [chaosexperiments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [minikafka.dev]
  resources: [chaosschedules]
  verbs: [get, list, watch]
- apiGroups: [minikafka.dev]
  resources: [chaosexperiments/status, chaosschedules/status]
  verbs: [get, update]
- apiGroups: [minikafka.dev] # to be the owner of what is made for them
  resources: [chaosexperiments/finalizers, chaosschedules/finalizers]
  verbs: [update]
- apiGroups: [minikafka.dev] # experiments that bring a cluster along
  resources: [minikafkaclusters]
  verbs: [get, create, delete]
- apiGroups: [minikafka.dev]
  resources: [minikafkatopics] # those that experiments have made in clusters that stay
  verbs: [list, delete]
- apiGroups: [minikafka.dev]
  resources: [minikafkausers] # as whom the clients of experiments log in; their Secrets nobody reads but the runner's pod
  verbs: [get, create, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
- apiGroups: [""] # whether the claim for a run is there
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{/* What a runner may do there. */}}
{{- define "minikafka-chaos.runnerRules" -}}
- apiGroups: [minikafka.dev]
  resources: [chaosexperiments, minikafkaclusters]
  verbs: [get]
- apiGroups: [minikafka.dev] # the ledger
  resources: [chaosexperiments/status]
  verbs: [get, update]
- apiGroups: [minikafka.dev]
  resources: [minikafkatopics]
  verbs: [list]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list]
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
- apiGroups: [""] # the brokers' metrics
  resources: [pods/proxy]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}
