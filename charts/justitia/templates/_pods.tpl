{{/* Image reference: root, image (repository, tag, digest). */}}
{{- define "justitia.image" -}}
{{- $registry := .root.Values.global.imageRegistry | default .root.Values.imageRegistry -}}
{{- with $registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- .image.repository -}}
{{- if .image.digest -}}@{{ .image.digest }}{{- else -}}:{{ .image.tag | default .root.Chart.AppVersion }}{{- end -}}
{{- end -}}

{{/* What all pods have in common: root, settings, serviceAccount. */}}
{{- define "justitia.podSpec" -}}
serviceAccountName: {{ .serviceAccount }}
automountServiceAccountToken: {{ .needsToken | default false }}
# A Service named `vllm` or `justitia-scheduler` would otherwise set variables that mean something else.
enableServiceLinks: false
{{- with concat (.root.Values.global.imagePullSecrets | default list) (.root.Values.imagePullSecrets | default list) | uniq }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- include "justitia.podSecurity" . | nindent 2 }}
{{- with .settings.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Where it may run, for components without GPUs. */}}
{{- define "justitia.placement" -}}
{{- $placement := dict -}}
{{- with .tolerations -}}{{- $_ := set $placement "tolerations" . -}}{{- end -}}
{{- with .affinity -}}{{- $_ := set $placement "affinity" . -}}{{- end -}}
{{- with $placement -}}{{ toYaml . }}{{- end -}}
{{- end -}}

{{/* Pod security context: the chart's with the component's over it. OpenShift chooses the ids itself. */}}
{{- define "justitia.podSecurity" -}}
{{- $context := deepCopy .root.Values.podSecurityContext -}}
{{- if .root.Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- include "justitia.overlay" (dict "base" $context "over" .settings.podSecurityContext) -}}
{{- include "justitia.withoutNulls" $context -}}
{{- end -}}

{{- define "justitia.containerSecurity" -}}
{{- $context := deepCopy .root.Values.containerSecurityContext -}}
{{- include "justitia.overlay" (dict "base" $context "over" .settings.containerSecurityContext) -}}
{{- include "justitia.withoutNulls" $context -}}
{{- end -}}

{{/* YAML of a map whose entries may be null, which means: leave it out. */}}
{{- define "justitia.withoutNulls" -}}
{{- $kept := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $kept $key $value -}}{{- end -}}
{{- end -}}
{{- toYaml $kept -}}
{{- end -}}
