{{/* The name of everything in the release. A Service's begins with a letter and has no dot, unlike a release's. */}}
{{- define "minikafka-logs.name" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "minikafka-%s" $name }}{{ end -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "minikafka-logs.selector" -}}
app.kubernetes.io/name: minikafka-logs
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "minikafka-logs.labels" -}}
{{ include "minikafka-logs.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: minikafka
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The reference of an image of the values: by digest where it has one, else by tag. "root" knows the chart's appVersion. */}}
{{- define "minikafka-logs.image" -}}
{{- with .image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.root.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "minikafka-logs.agentsNamespace" -}}
{{ .Values.agents.namespace | default .Release.Namespace }}
{{- end -}}

{{- define "minikafka-logs.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* A line of a log with its time is 16 KiB and a little; rsyslog cuts what is longer than this. */}}
{{- define "minikafka-logs.lineMax" -}}64k{{- end -}}

{{- define "minikafka-logs.port" -}}2514{{- end -}}

{{/*
There is no queue between the files and the store: while the store is away nothing is read. What was sent and not confirmed is sent
again when the connection is there again, but not by the next process: therefore an agent that starts forgets how far the one
before it had read, and sends all that the node still has. Who reads the logs drops what came twice.
*/}}
{{- define "minikafka-logs.agentCommand" -}}
rm -f /state/*; exec rsyslogd -n -iNONE -f /etc/minikafka-logs/rsyslog.conf
{{- end -}}

{{/* The files that an agent reads, as patterns with a space between them. */}}
{{- define "minikafka-logs.collected" -}}
{{- $patterns := list -}}
{{- range $namespace := .Values.namespaces | default (list .Release.Namespace) -}}
{{- range $container := $.Values.containers -}}
{{- $patterns = append $patterns (printf "/var/log/pods/%s_*/%s/*.log" $namespace $container) -}}
{{- end -}}
{{- end -}}
{{- join " " $patterns -}}
{{- end -}}

{{/*
Ready is an agent that has opened every log of its node: what is open is read to its end, even when its pod is gone. A log that it has
not opened yet goes with its pod, so who replaces agents waits for this (a DaemonSet does). Without a store nothing new is opened.
*/}}
{{- define "minikafka-logs.agentReady" -}}
for log in {{ include "minikafka-logs.collected" . }}; do readlink /proc/1/fd/* | grep -qxF "$log" || ! [ -e "$log" ] || { echo "$log is not open yet" >&2; exit 1; }; done
{{- end -}}

{{- define "minikafka-logs.agentConf" -}}
global(workDirectory="/state" maxMessageSize="{{ include "minikafka-logs.lineMax" . }}" parser.escapeControlCharactersOnReceive="off")
module(load="imfile" mode="inotify")
module(load="omrelp")

# The line as the kubelet has it, below a header that says where it was: pod's folder, container, file.
template(name="line" type="list") {
  constant(value="<14>1 - - ")
  property(name="$!metadata!filename" field.delimiter="47" field.number="5")
  constant(value=" ")
  property(name="$!metadata!filename" field.delimiter="47" field.number="6")
  constant(value=" ")
  property(name="$!metadata!filename" field.delimiter="47" field.number="7")
  constant(value=" - ")
  property(name="msg")
}

ruleset(name="ship" queue.type="Direct") {
  action(type="omrelp" target="{{ include "minikafka-logs.name" . }}-store.{{ .Release.Namespace }}.svc" port="{{ include "minikafka-logs.port" . }}"
         template="line" timeout="10" conn.timeout="5" action.resumeRetryCount="-1" action.resumeInterval="2" action.resumeIntervalMax="10")
}
{{ range splitList " " (include "minikafka-logs.collected" .) }}
input(type="imfile" file="{{ . }}" tag="log" addMetadata="on" ruleset="ship"
      reopenOnTruncate="on")
{{- end }}
{{ end -}}

{{/*
rsyslog confirms what a full disk does not take. So a store with less room than this is ended and does not start, and agents wait;
what comes in the seconds between two looks has room in it.
*/}}
{{- define "minikafka-logs.room" -}}
[ $(( $(stat -f -c '%a * %S' /logs) / 1048576 )) -ge 16 ]
{{- end -}}

{{- define "minikafka-logs.storeCommand" -}}
{{ include "minikafka-logs.room" . }} || { echo "/logs: less than 16 MiB are free" >&2; exit 1; }; exec rsyslogd -n -iNONE -f /etc/minikafka-logs/rsyslog.conf
{{- end -}}

{{- define "minikafka-logs.storeConf" -}}
global(workDirectory="/tmp" maxMessageSize="{{ include "minikafka-logs.lineMax" . }}" parser.escapeControlCharactersOnReceive="off")
module(load="imrelp")

# The folders are the kubelet's. A name that would lead elsewhere is made harmless.
template(name="file" type="list") {
  constant(value="/logs/")
  property(name="app-name" securepath="replace")
  constant(value="/")
  property(name="procid" securepath="replace")
  constant(value="/")
  property(name="msgid" securepath="replace")
}
template(name="line" type="string" string="%msg%\n")

ruleset(name="keep" queue.type="Direct") {
  action(type="omfile" dynaFile="file" template="line" dynaFileCacheSize="200" closeTimeout="1" createDirs="on"
         dirCreateMode="0755" fileCreateMode="0644")
}
input(type="imrelp" port="{{ include "minikafka-logs.port" . }}" ruleset="keep" maxDataSize="128k" keepAlive="on")
{{ end -}}
