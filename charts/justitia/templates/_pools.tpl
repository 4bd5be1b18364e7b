{{/* Key of a pool in the scheduler service: namespace/name. */}}
{{- define "justitia.poolKey" -}}{{ .root.Release.Namespace }}/{{ .name }}{{- end -}}

{{/* Lays one item of `pools` over the defaults; the result is put into .into. */}}
{{- define "justitia.poolSettings" -}}
{{- $settings := deepCopy .root.Values.poolDefaults -}}
{{- include "justitia.overlay" (dict "base" $settings "over" .pool) -}}
{{- $_ := set .into "settings" $settings -}}
{{- end -}}

{{/* Whether GPUs come from claims. */}}
{{- define "justitia.usesClaims" -}}
{{- if or .accelerator.deviceClassName .accelerator.resourceClaimTemplateName -}}true{{- end -}}
{{- end -}}

{{/* Whether an engine has a GPU at all. */}}
{{- define "justitia.hasGpu" -}}
{{- if or (include "justitia.usesClaims" .) .accelerator.resource -}}true{{- end -}}
{{- end -}}

{{- define "justitia.gpuCount" -}}
{{- .accelerator.count | default (mul .tensorParallelSize .pipelineParallelSize) | int -}}
{{- end -}}

{{- define "justitia.claimSpec" -}}
spec:
  devices:
    requests:
      - name: gpu
        exactly:
          deviceClassName: {{ .accelerator.deviceClassName }}
          allocationMode: ExactCount
          count: {{ include "justitia.gpuCount" . }}
          {{- with .accelerator.deviceSelectors }}
          selectors:
            {{- range . }}
            - cel: {expression: {{ . | quote }}}
            {{- end }}
          {{- end }}
{{- end -}}

{{/* The spec of a ResourceClaimTemplate cannot change: another spec gets another name. */}}
{{- define "justitia.claimName" -}}
{{- printf "%s-%s" .name (include "justitia.claimSpec" .settings | sha256sum | trunc 8) -}}
{{- end -}}

{{/* Image of a pool's engines: the chart's with the pool's over it; the result is put into .into. */}}
{{- define "justitia.poolImage" -}}
{{- $image := ternary .root.Values.images.vllm .root.Values.images.vllmCpu (eq (include "justitia.hasGpu" .settings) "true") | deepCopy -}}
{{- if or .settings.image.tag .settings.image.repository -}}{{- $_ := set $image "digest" "" -}}{{- end -}}
{{- include "justitia.overlay" (dict "base" $image "over" .settings.image) -}}
{{- $_ := set .into "image" $image -}}
{{- end -}}

{{/* Flags of vLLM. */}}
{{- define "justitia.engineArgs" -}}
- {{ printf "--model=%s" .model | quote }}
{{- with .servedModelName }}
- {{ printf "--served-model-name=%s" . | quote }}
{{- end }}
- "--host={{ .listenHost }}"
- "--port=8000"
- "--scheduler-cls=justitia.vllm_plugin.JustitiaScheduler"
- "--middleware=justitia.vllm_plugin.RunIdentity"
- "--enable-prompt-tokens-details"
- '--shutdown-timeout={{ include "justitia.integer" .drainSeconds }}'
- '--tensor-parallel-size={{ include "justitia.integer" .tensorParallelSize }}'
- '--pipeline-parallel-size={{ include "justitia.integer" .pipelineParallelSize }}'
{{- $numbers := dict "max-model-len" .maxModelLenTokens "max-num-seqs" .maxNumSeqs "max-num-batched-tokens" .maxNumBatchedTokens "block-size" .kvCache.blockSizeTokens }}
{{- range $flag, $value := $numbers }}
{{- if $value }}
- '--{{ $flag }}={{ include "justitia.integer" $value }}'
{{- end }}
{{- end }}
{{- with .kvCache.blocks }}
# One block is vLLM's null block and holds nothing.
- '--num-gpu-blocks-override={{ add1 (include "justitia.integer" .) }}'
{{- end }}
{{- with .kvCache.gpuMemoryUtilization }}
- "--gpu-memory-utilization={{ . }}"
{{- end }}
{{- with .kvCache.watermark }}
- "--watermark={{ . }}"
{{- end }}
{{- with .kvCache.dtype }}
- "--kv-cache-dtype={{ . }}"
{{- end }}
{{- with .dtype }}
- "--dtype={{ . }}"
{{- end }}
{{- if .tlsSecretName }}
- "--ssl-certfile=/etc/justitia/api-tls/tls.crt"
- "--ssl-keyfile=/etc/justitia/api-tls/tls.key"
{{- end }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Variables of an engine: root, settings. */}}
{{- define "justitia.engineEnv" -}}
{{- $host := include "justitia.schedulerHost" .root -}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: JUSTITIA_POOL
  value: $(POD_NAMESPACE)/{{ .settings.name }}
- name: JUSTITIA_ENGINE_ID
  value: $(POD_NAME)
- name: JUSTITIA_SCHEDULER_ADDRESS
  value: {{ $host }}:50051
- name: JUSTITIA_POLICY
  value: {{ .settings.policy }}
- name: JUSTITIA_MODE
  value: {{ .settings.mode }}
- name: JUSTITIA_DEFAULT_COST_KVTT
  value: {{ include "justitia.integer" .settings.defaultCostKvtt | quote }}
{{- with include "justitia.clientTlsEnv" (dict "root" .root "prefix" "JUSTITIA_") }}
{{ . }}
{{- end }}
# Whatever proxy is set for models, the service is not behind it.
- name: no_grpc_proxy
  value: {{ $host }}
# The user may have any number and no home, and the root is read-only.
- {name: HOME, value: /cache}
- {name: USER, value: vllm}
- {name: HF_HOME, value: /cache/huggingface}
- {name: VLLM_CACHE_ROOT, value: /cache/vllm}
- {name: XDG_CACHE_HOME, value: /cache/xdg}
- {name: TORCHINDUCTOR_CACHE_DIR, value: /cache/torchinductor}
- {name: TRITON_CACHE_DIR, value: /cache/triton}
- {name: VLLM_NO_USAGE_STATS, value: "1"}
{{- with .settings.huggingFaceTokenSecret }}
{{- if .name }}
- name: HF_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}
{{- end }}
{{- with .settings.apiKeySecret }}
{{- if .name }}
- name: VLLM_API_KEY
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}
{{- end }}
{{- with .settings.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Resources of an engine's container: those of the values and its GPUs. */}}
{{- define "justitia.engineResources" -}}
{{- $resources := deepCopy .resources -}}
{{- if include "justitia.usesClaims" . -}}
{{- $_ := set $resources "claims" (append ($resources.claims | default list) (dict "name" "gpu")) -}}
{{- else if .accelerator.resource -}}
{{- $limits := $resources.limits | default dict -}}
{{- $_ := set $limits .accelerator.resource (include "justitia.gpuCount" . | int) -}}
{{- $_ := set $resources "limits" $limits -}}
{{- end -}}
{{ toYaml $resources }}
{{- end -}}

{{/* Node affinity: the values' own, and in each of its terms one of the GPU models. */}}
{{- define "justitia.engineAffinity" -}}
{{- $affinity := deepCopy .affinity -}}
{{- with .accelerator -}}
{{- if .products -}}
{{- $names := list -}}
{{- range .products -}}
{{- $names = append $names . -}}
{{- /* Older feature discovery leaves the vendor out. */ -}}
{{- $names = append $names (ternary (trimPrefix "NVIDIA-" .) (printf "NVIDIA-%s" .) (or (hasPrefix "NVIDIA-" .) (hasPrefix "Tesla-" .))) -}}
{{- end -}}
{{- $need := dict "key" .productLabel "operator" "In" "values" ($names | uniq) -}}
{{- $node := $affinity.nodeAffinity | default dict -}}
{{- $required := $node.requiredDuringSchedulingIgnoredDuringExecution | default dict -}}
{{- $terms := list -}}
{{- range $required.nodeSelectorTerms | default (list dict) -}}
{{- $term := deepCopy . -}}
{{- $_ := set $term "matchExpressions" (append (.matchExpressions | default list) $need) -}}
{{- $terms = append $terms $term -}}
{{- end -}}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- end -}}
{{- with $affinity -}}{{ toYaml . }}{{- end -}}
{{- end -}}

{{/* The values' tolerations and the one for GPU nodes. */}}
{{- define "justitia.engineTolerations" -}}
{{- $tolerations := .tolerations -}}
{{- if and (include "justitia.hasGpu" .) .accelerator.tolerateTaint .accelerator.resource -}}
{{- $taint := ternary "nvidia.com/gpu" .accelerator.resource (hasPrefix "nvidia.com/" .accelerator.resource) -}}
{{- $tolerations = append $tolerations (dict "key" $taint "operator" "Exists" "effect" "NoSchedule") -}}
{{- end -}}
{{- with $tolerations -}}{{ toYaml . }}{{- end -}}
{{- end -}}
