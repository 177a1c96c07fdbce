{{/* The name of everything in the release. */}}
{{- define "minikafka-analytics.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "minikafka-analytics.selector" -}}
app.kubernetes.io/name: minikafka-analytics
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "minikafka-analytics.labels" -}}
{{ include "minikafka-analytics.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: analytics
app.kubernetes.io/part-of: minikafka
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The reference of an image of the values: by digest where it has one, else by tag. "root" knows the chart's appVersion. */}}
{{- define "minikafka-analytics.image" -}}
{{- with .image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.root.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{/* What the pod of every Job has; its containers and volumes come after it. */}}
{{- define "minikafka-analytics.pod" -}}
restartPolicy: Never
serviceAccountName: {{ .Values.serviceAccount.name | quote }}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "minikafka-analytics.podSecurity" . | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "minikafka-analytics.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "minikafka-analytics.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The driver; its executors are made like it. "what" is the list of words after analyze. */}}
{{- define "minikafka-analytics.driver" -}}
{{- with .root }}
- name: driver
  image: {{ include "minikafka-analytics.image" (dict "root" . "image" .Values.image) | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - analyze
    {{- range $.what }}
    - {{ . | quote }}
    {{- end }}
    - --json
    {{- with .Values.executors }}
    {{- if .instances }}
    - --master=k8s://
    - --conf=spark.executor.instances={{ .instances }}
    - --conf=spark.executor.cores={{ .cores }}
    - --conf=spark.executor.memory={{ .memory }}
    - --conf=spark.minikafka.executors.spread={{ .spread }}
    {{- else }}
    - --master=local[*]
    {{- end }}
    {{- end }}
    {{- range $key, $value := .Values.sparkConf }}
    {{- /* A file's numbers are floats, and a large one would be written as 1e+06. */}}
    {{- if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ $value = int64 $value }}{{ end }}
    - {{ printf "--conf=%s=%v" $key $value | quote }}
    {{- end }}
  env:
    - name: POD_NAME
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
  terminationMessagePolicy: FallbackToLogsOnError
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  securityContext:
    {{- include "minikafka-analytics.containerSecurity" . | nindent 4 }}
  volumeMounts:
    - name: tmp
      mountPath: /tmp
    - name: runs
      mountPath: /runs
{{- end }}
{{- end -}}

{{- define "minikafka-analytics.volumes" -}}
- name: tmp
  emptyDir: {}
- name: runs
  persistentVolumeClaim:
    claimName: {{ .Values.runs.claim | quote }}
{{- end -}}

{{/* Drivers of this chart, and whoever's executors. */}}
{{- define "minikafka-analytics.sparkPods" -}}
matchLabels:
  app.kubernetes.io/part-of: minikafka
matchExpressions:
  - key: app.kubernetes.io/component
    operator: In
    values: [analytics, executor]
{{- end -}}

{{/* Drivers of the reports of experiments. */}}
{{- define "minikafka-analytics.reportPods" -}}
matchLabels:
  app.kubernetes.io/managed-by: minikafka-chaos
  app.kubernetes.io/component: report
{{- end -}}
