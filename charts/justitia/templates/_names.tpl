{{/* Name that an object's name starts with: the release's; a subchart adds its own name or alias. */}}
{{- define "justitia.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not .Chart.IsRoot -}}{{- $name = printf "%s-%s" .Release.Name .Chart.Name -}}{{- end -}}
{{- include "justitia.short" (dict "name" (.Values.fullnameOverride | default $name) "length" 40) -}}
{{- end -}}

{{/* Shortens a name; two long names that start alike stay different. */}}
{{- define "justitia.short" -}}
{{- if le (len .name) (int .length) -}}
{{- .name -}}
{{- else -}}
{{- printf "%s-%s" (.name | trunc (int (sub .length 9)) | trimSuffix "-" | trimSuffix ".") (.name | sha256sum | trunc 8) -}}
{{- end -}}
{{- end -}}

{{/* Name of one component's objects. 52: a StatefulSet's pods carry it with a hash in a label of 63. */}}
{{- define "justitia.component" -}}
{{- include "justitia.short" (dict "name" (printf "%s-%s" (include "justitia.fullname" .root) .component) "length" 52) -}}
{{- end -}}

{{/* Name of cluster-wide objects: releases of two namespaces may have one name. */}}
{{- define "justitia.clusterName" -}}
{{- include "justitia.short" (dict "name" (printf "%s-%s-%s" .root.Release.Namespace (include "justitia.fullname" .root) .component) "length" 120) -}}
{{- end -}}

{{/* What selects a component's pods. Immutable: nothing that an upgrade changes belongs here. */}}
{{- define "justitia.selector" -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride | default .root.Chart.Name }}
app.kubernetes.io/instance: {{ include "justitia.short" (dict "name" .root.Release.Name "length" 63) }}
app.kubernetes.io/component: {{ .component }}
{{- with .pool }}
justitia.dev/pool: {{ . }}
{{- end }}
{{- end -}}

{{/* Labels of a component's objects. */}}
{{- define "justitia.labels" -}}
{{ include "justitia.selector" . }}
app.kubernetes.io/part-of: justitia
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object: root, component, name, and maybe pool, annotations, labels, isClusterWide. */}}
{{- define "justitia.metadata" -}}
name: {{ .name }}
{{- if not .isClusterWide }}
namespace: {{ .namespace | default .root.Release.Namespace }}
{{- end }}
labels:
  {{- include "justitia.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (deepCopy (.annotations | default dict)) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
Labels of a component's pods: root, component, settings, and maybe pool. No version: a new one alone
restarts no engine.
*/}}
{{- define "justitia.podLabels" -}}
{{ include "justitia.selector" . }}
app.kubernetes.io/part-of: justitia
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- with .settings.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Name in DNS of a Service of this namespace. */}}
{{- define "justitia.host" -}}
{{- printf "%s.%s.svc" .name .root.Release.Namespace -}}
{{- with .root.Values.clusterDomain }}.{{ . }}{{ end -}}
{{- end -}}

{{- define "justitia.schedulerHost" -}}
{{- include "justitia.host" (dict "root" . "name" (include "justitia.component" (dict "root" . "component" "scheduler"))) -}}
{{- end -}}

{{/* host:port to listen on; IPv6 stands in brackets. */}}
{{- define "justitia.listen" -}}
{{- if contains ":" .root.Values.listenHost -}}[{{ .root.Values.listenHost }}]:{{ .port }}
{{- else -}}{{ .root.Values.listenHost }}:{{ .port }}
{{- end -}}
{{- end -}}

{{/*
A whole number as it was meant: Helm reads values as floats and would print 1e+06. Strings pass, for
numbers that a float cannot hold.
*/}}
{{- define "justitia.integer" -}}
{{- if kindIs "string" . -}}{{ . }}{{- else -}}{{ printf "%.0f" (float64 .) }}{{- end -}}
{{- end -}}

{{/* Lays one map over another, which it changes; zero and false count as well, unlike in `merge`. */}}
{{- define "justitia.overlay" -}}
{{- $base := .base -}}
{{- range $key, $value := .over -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $base $key)) -}}
{{- include "justitia.overlay" (dict "base" (get $base $key) "over" $value) -}}
{{- else -}}
{{- $_ := set $base $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* `from` of a NetworkPolicy: the given peers, or every pod of the cluster. */}}
{{- define "justitia.from" -}}
from:
  {{- if . }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  - namespaceSelector: {}
  {{- end }}
{{- end -}}

{{/* Namespaces that the operator serves, as JSON: those of the values, and that of the pools. */}}
{{- define "justitia.watched" -}}
{{- append .Values.watchNamespaces .Release.Namespace | uniq | toJson -}}
{{- end -}}
