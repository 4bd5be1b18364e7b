{{/* Secret of the scheduler service's certificate, and of its clients'. */}}
{{- define "justitia.serverSecret" -}}
{{- if eq .Values.tls.mode "manual" -}}{{ .Values.tls.manual.serverSecret }}
{{- else -}}{{ include "justitia.component" (dict "root" . "component" "scheduler-tls") }}{{- end -}}
{{- end -}}

{{- define "justitia.clientSecret" -}}
{{- if eq .Values.tls.mode "manual" -}}{{ .Values.tls.manual.clientSecret }}
{{- else -}}{{ include "justitia.component" (dict "root" . "component" "client-tls") }}{{- end -}}
{{- end -}}

{{/* Names that the scheduler service is called by; localhost is for `kubectl port-forward`. */}}
{{- define "justitia.serverNames" -}}
{{- $name := include "justitia.component" (dict "root" . "component" "scheduler") -}}
{{- $namespace := .Release.Namespace -}}
{{- $names := list $name (printf "%s.%s" $name $namespace) (printf "%s.%s.svc" $name $namespace) -}}
{{- with .Values.clusterDomain -}}{{- $names = append $names (printf "%s.%s.svc.%s" $name $namespace .) -}}{{- end -}}
{{- toJson (concat $names (list "localhost") .Values.tls.extraDnsNames | uniq) -}}
{{- end -}}

{{/* Variables of a client of the scheduler service: root, prefix. */}}
{{- define "justitia.clientTlsEnv" -}}
{{- if .root.Values.tls.enabled -}}
- name: {{ .prefix }}TLS_CA
  value: /etc/justitia/tls/ca.crt
{{- if .root.Values.tls.clientAuth }}
- name: {{ .prefix }}TLS_CERT
  value: /etc/justitia/tls/tls.crt
- name: {{ .prefix }}TLS_KEY
  value: /etc/justitia/tls/tls.key
{{- end }}
{{- end }}
{{- end -}}

{{- define "justitia.tlsMount" -}}
{{- if .Values.tls.enabled -}}
- name: tls
  mountPath: /etc/justitia/tls
  readOnly: true
{{- end }}
{{- end -}}

{{/* Volume with a Secret's files, as far as they are needed: root, secret, hasKeyPair. */}}
{{- define "justitia.tlsVolume" -}}
{{- if .root.Values.tls.enabled -}}
- name: tls
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      - {key: ca.crt, path: ca.crt}
      {{- if .hasKeyPair }}
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
      {{- end }}
{{- end }}
{{- end -}}

{{/* Changes when a certificate that this chart made does, so that pods read it. */}}
{{- define "justitia.tlsChecksum" -}}
{{- if and .Values.tls.enabled (eq .Values.tls.mode "auto") -}}
{{- include "justitia.autoCertificates" . -}}
{{- get (get .Values "_certificates") "checksum" -}}
{{- end -}}
{{- end -}}

{{/*
Makes the certificates of mode `auto`, once per rendering; they are kept below .Values._certificates.
What the cluster has stays, as long as the server's names are the same: an upgrade changes nothing.
*/}}
{{- define "justitia.autoCertificates" -}}
{{- if not (hasKey .Values "_certificates") -}}
{{- $names := include "justitia.serverNames" . | fromJsonArray -}}
{{- $old := lookup "v1" "Secret" .Release.Namespace (include "justitia.serverSecret" .) | default dict -}}
{{- $oldClient := lookup "v1" "Secret" .Release.Namespace (include "justitia.clientSecret" .) | default dict -}}
{{- $oldNames := dig "metadata" "annotations" "justitia.dev/dns-names" "" $old -}}
{{- $server := $old.data -}}
{{- $client := $oldClient.data -}}
{{- if not (and $server $client (eq $oldNames (join "," $names))) -}}
{{- $days := int .Values.tls.auto.validityDays -}}
{{- $ca := genCAWithKey (include "justitia.fullname" . | printf "%s-ca") $days (genPrivateKey "ecdsa") -}}
{{- $pair := genSignedCertWithKey (first $names | trunc 64) (list "127.0.0.1" "::1") $names $days $ca (genPrivateKey "ecdsa") -}}
{{- $server = dict "ca.crt" (b64enc $ca.Cert) "tls.crt" (b64enc $pair.Cert) "tls.key" (b64enc $pair.Key) -}}
{{- $pair = genSignedCertWithKey "justitia-client" nil (list "justitia-client") $days $ca (genPrivateKey "ecdsa") -}}
{{- $client = dict "ca.crt" (b64enc $ca.Cert) "tls.crt" (b64enc $pair.Cert) "tls.key" (b64enc $pair.Key) -}}
{{- end -}}
{{- $checksum := printf "%s%s" (get $server "tls.crt") (get $client "tls.crt") | sha256sum -}}
{{- $_ := set .Values "_certificates" (dict "server" $server "client" $client "names" (join "," $names) "checksum" $checksum) -}}
{{- end -}}
{{- end -}}
