{{/* What the schema cannot say: each refusal is one sentence. */}}
{{- define "justitia.check" -}}
{{- include "justitia.checkTls" . -}}
{{- include "justitia.checkPoolNames" . -}}
{{- include "justitia.checkWatch" . -}}
{{- end -}}

{{- define "justitia.checkTls" -}}
{{- with .Values.tls -}}
{{- if .enabled -}}
{{- if and (eq .mode "cert-manager") (not .certManager.issuerRef.name) -}}
{{- fail "tls.certManager.issuerRef.name: must name the Issuer that signs, since tls.mode is cert-manager" -}}
{{- end -}}
{{- if eq .mode "manual" -}}
{{- if not .manual.serverSecret -}}
{{- fail "tls.manual.serverSecret: must name the Secret with tls.crt, tls.key and ca.crt, since tls.mode is manual" -}}
{{- end -}}
{{- if not .manual.clientSecret -}}
{{- fail "tls.manual.clientSecret: must name the Secret of the service's clients, since tls.mode is manual" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "justitia.checkPoolNames" -}}
{{- $taken := dict -}}
{{- range $component := list "scheduler" "scheduler-pod" "operator" -}}
{{- $_ := set $taken (include "justitia.component" (dict "root" $ "component" $component)) "the chart's own" -}}
{{- end -}}
{{- range $index, $pool := .Values.pools -}}
{{- if hasKey $taken $pool.name -}}
{{- fail (printf "pools[%d].name: %q is taken by %s Service" $index $pool.name (get $taken $pool.name)) -}}
{{- end -}}
{{- $_ := set $taken $pool.name (printf "pools[%d]'s" $index) -}}
{{- if has $pool.name (list "scheduler" "operator" "scheduler-tls" "client-tls" "scheduler-pod" "test" "metrics") -}}
{{- fail (printf "pools[%d].name: %q would give its objects the name of another component" $index $pool.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Two operators that watch the same namespaces would overwrite each other's statuses. */}}
{{- define "justitia.checkWatch" -}}
{{- if and .Values.operator.enabled .Values.rbac.create (not .Values.watchNamespaces) -}}
{{- $own := include "justitia.clusterName" (dict "root" . "component" "operator") -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items | default list -}}
{{- $labels := .metadata.labels | default dict -}}
{{- if and (eq (get $labels "justitia.dev/watches") "all") (ne .metadata.name $own) -}}
{{- fail (printf "watchNamespaces: must be set, since the operator of release %q serves all namespaces of this cluster already (ClusterRole %s)" (get $labels "app.kubernetes.io/instance") .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "justitia.checkPool" -}}
{{- $name := .settings.name -}}
{{- with .settings -}}
{{- if not .model -}}
{{- fail (printf "pools: pool %q needs a model" $name) -}}
{{- end -}}
{{- $needed := mul .tensorParallelSize .pipelineParallelSize | int -}}
{{- $count := include "justitia.gpuCount" . | int -}}
{{- if and (include "justitia.hasGpu" .) (lt $count $needed) -}}
{{- fail (printf "pools: pool %q has accelerator.count %d, less than tensorParallelSize x pipelineParallelSize = %d" $name $count $needed) -}}
{{- end -}}
{{- if and .accelerator.deviceClassName .accelerator.resourceClaimTemplateName -}}
{{- fail (printf "pools: pool %q names both accelerator.deviceClassName and accelerator.resourceClaimTemplateName; one of them makes the claims" $name) -}}
{{- end -}}
{{- $hasOldKubernetes := semverCompare "<1.34.0-0" $.root.Capabilities.KubeVersion.Version -}}
{{- if and (include "justitia.usesClaims" .) $hasOldKubernetes -}}
{{- fail (printf "pools: pool %q uses resource claims, which need Kubernetes 1.34 or newer, and this is %s" $name $.root.Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- $flags := list -}}
{{- range include "justitia.engineArgs" (merge (dict "listenHost" "::" "tlsSecretName" "x") (omit . "extraArgs")) | fromYamlArray -}}
{{- $flags = append $flags (splitList "=" . | first) -}}
{{- end -}}
{{- range $index, $arg := .extraArgs -}}
{{- $flag := splitList "=" $arg | first | replace "_" "-" -}}
{{- if or (has $flag $flags) (has $flag (list "--scheduling-policy" "-tp" "-pp" "--uds")) -}}
{{- fail (printf "pools: pool %q has %s in extraArgs, which the chart sets: use the pool's own fields" $name $flag) -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range include "justitia.engineEnv" (dict "root" $.root "settings" (omit . "extraEnv")) | fromYamlArray -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range $index, $variable := .extraEnv -}}
{{- if has $variable.name $names -}}
{{- fail (printf "pools: pool %q has %s in extraEnv, which is set already: use the pool's own fields" $name $variable.name) -}}
{{- end -}}
{{- $names = append $names $variable.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
