"""The product on a cluster: a Helm release with one pool, and a client in a pod of its own."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from kube.commands import Commands
from kube.environment import CLIENT_COMPONENT
from kube.images import version

MODEL_NAME: Final = "emulated"
POOL: Final = "default"
RELEASE: Final = "justitia"

_ROOT: Final = Path(__file__).resolve().parents[3]
_CHART: Final = _ROOT / "charts" / "justitia"
_MODEL_PATH: Final = "/models/tiny"
_TLS_FOLDER: Final = "/etc/justitia/tls"
_INSTALL_TIMEOUT: Final = "10m"
_INSTALL_TIMEOUT_S: Final = 660.0

_AGENTS: Final = """
import asyncio, json, os, sys
import httpx, openai
from justitia.client import TlsFiles, connect_async, run_headers

async def main(runs):
    async with connect_async(
        os.environ["JUSTITIA_SCHEDULER_ADDRESS"], tls=TlsFiles.from_environment()
    ) as scheduler, openai.AsyncOpenAI(
        base_url="http://default:8000/v1", api_key="none", timeout=300,
        http_client=httpx.AsyncClient(trust_env=False, limits=httpx.Limits(max_connections=None)),
    ) as client:
        async def play(run):
            await asyncio.sleep(run["start_s"])
            if not run["is_declared"]:
                return await infer(run, run_headers(run["id"], run["application"]))
            async with scheduler.run(application=run["application"], prompt=run["prompt"],
                                     run_id=run["id"], is_required=True) as declared:
                return await infer(run, declared.headers)

        async def infer(run, headers):
            tokens = 0
            for max_tokens in run["inferences"]:
                answer = await client.chat.completions.create(
                    model="emulated", max_tokens=max_tokens, extra_headers=headers,
                    messages=[{"role": "user", "content": run["prompt"]}],
                    extra_body={"ignore_eos": True},
                )
                tokens += answer.usage.completion_tokens
            return tokens
        print(json.dumps(await asyncio.gather(*map(play, runs))))

asyncio.run(main(json.load(sys.stdin)))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run of an agent: inferences one after another, each of so many tokens."""

    application: str
    id: str
    prompt: str
    #: Output tokens of each inference.
    inferences: Sequence[int]
    start_s: float = 0.0
    #: Whether the service is told of it and of its prompt; else its headers say all.
    is_declared: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """One release in one namespace."""

    commands: Commands
    namespace: str
    #: Extended resource of a GPU; empty where the cluster has none.
    gpu_resource: str
    folder: Path

    def install(self, *, policy: str = "justitia", **changes: Any) -> None:
        """Install or upgrade it with a pool's ``policy``, and wait until its pods are ready."""
        values = self._write_values(self._values(policy) | changes)
        self.commands.helm(
            *("upgrade", "--install", RELEASE, str(_CHART), "--namespace", self.namespace),
            *("--values", str(values), "--wait", "--timeout", _INSTALL_TIMEOUT),
            timeout_s=_INSTALL_TIMEOUT_S,
        )

    def rule_groups(self) -> list[dict[str, Any]]:
        """Render what the chart gives a Prometheus to evaluate."""
        values = self._write_values(
            self._values("justitia") | {"prometheusRule": {"enabled": True}}
        )
        text = self.commands.helm(
            *("template", RELEASE, str(_CHART), "--namespace", self.namespace),
            *("--values", str(values), "--show-only", "templates/prometheusrule.yaml"),
        )
        groups: list[dict[str, Any]] = yaml.safe_load(text)["spec"]["groups"]
        return groups

    def put_model(self, model: Path) -> None:
        """Make the emulator's model folder a ConfigMap."""
        files = [f"--from-file={file}" for file in sorted(model.iterdir())]
        self.kubectl("create", "configmap", "tiny-model", *files)

    def start_client(self) -> None:
        """Start a pod with the openai library that may call the service as docs/install.md says."""
        container = {
            "name": "main",
            "image": f"justitia/vllm-cpu:{version()}",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sleep", "86400"],
            "env": [
                {"name": "JUSTITIA_SCHEDULER_ADDRESS", "value": f"{RELEASE}-scheduler:50051"},
                {"name": "JUSTITIA_TLS_CA", "value": f"{_TLS_FOLDER}/ca.crt"},
                {"name": "JUSTITIA_TLS_CERT", "value": f"{_TLS_FOLDER}/tls.crt"},
                {"name": "JUSTITIA_TLS_KEY", "value": f"{_TLS_FOLDER}/tls.key"},
            ],
            "volumeMounts": [{"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True}],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "client",
                "namespace": self.namespace,
                "labels": {
                    "app.kubernetes.io/component": CLIENT_COMPONENT,
                    "justitia.dev/scheduler-client": "true",
                },
            },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                "volumes": [{"name": "tls", "secret": {"secretName": f"{RELEASE}-client-tls"}}],
            },
        }
        self.commands.apply(pod)
        self.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=120s")

    def serve_runs(
        self, application: str, *, prefix: str, num_runs: int, is_declared: bool = False
    ) -> list[int]:
        """Play small runs of an application at once; returns the tokens that each got."""
        return self.play(
            [
                Run(
                    application=application,
                    id=f"{prefix}-{number}",
                    prompt=f"task {number} " * (5 + number % 7),
                    inferences=(16, 16),
                    is_declared=is_declared,
                )
                for number in range(num_runs)
            ]
        )

    def play(self, runs: Sequence[Run]) -> list[int]:
        """Play runs through the OpenAI client in the client's pod; as ``serve_runs``."""
        listed = json.dumps([asdict(run) for run in runs])
        command = ("exec", "-i", "client", "--", "python3", "-c", _AGENTS)
        tokens: list[int] = json.loads(self.kubectl(*command, text=listed))
        return tokens

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl in the release's namespace."""
        return self.commands.kubectl("--namespace", self.namespace, *arguments, text=text)

    def application(self, name: str) -> dict[str, Any]:
        """Read an LLMApplication."""
        found: dict[str, Any] = json.loads(self.kubectl("get", "llmapp", name, "-o", "json"))
        return found

    def status(self, name: str) -> dict[str, Any]:
        """Read an LLMApplication's status; empty as long as it has none."""
        found: dict[str, Any] = self.application(name).get("status", {})
        return found

    def completed(self, name: str) -> int:
        """How many of its runs have ended."""
        return int(self.status(name).get("runs", {}).get("completed", 0))

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """Read one condition of an LLMApplication; empty as long as it has none."""
        listed = self.status(name).get("conditions", [])
        return next((each for each in listed if each["type"] == kind), {})

    def metrics(self, service: str) -> str:
        """Read the metrics of a Service through the API server."""
        path = f"/api/v1/namespaces/{self.namespace}/services/{service}:metrics/proxy/metrics"
        return self.commands.kubectl("get", "--raw", path)

    def _write_values(self, values: dict[str, Any]) -> Path:
        path = self.folder / "values.json"
        path.write_text(json.dumps(values))  # JSON is YAML
        return path

    def _values(self, policy: str) -> dict[str, Any]:
        pool: dict[str, Any] = {
            "name": POOL,
            "policy": policy,
            "model": _MODEL_PATH,
            "servedModelName": MODEL_NAME,
            "replicas": 2,
            "accelerator": {"resource": self.gpu_resource},
            "image": {"repository": "justitia/vllm-cpu"},
            "maxModelLenTokens": 2048,
            "maxNumSeqs": 64,
            "maxNumBatchedTokens": 2048,
            "kvCache": {"blocks": 459, "blockSizeTokens": 16},
            "extraArgs": [
                "--load-format=dummy",
                "--distributed-executor-backend=justitia.vllm_plugin.emulator.EmulatedExecutor",
                "--enforce-eager",
            ],
            "extraEnv": [
                {"name": "VLLM_CPU_KVCACHE_SPACE", "value": "1"},
                {"name": "OMP_NUM_THREADS", "value": "1"},
                {"name": "HF_HUB_OFFLINE", "value": "1"},
            ],
            "drainSeconds": 5,
            "startupSeconds": 600,
            "extraVolumes": [{"name": "model", "configMap": {"name": "tiny-model"}}],
            "extraVolumeMounts": [{"name": "model", "mountPath": _MODEL_PATH, "readOnly": True}],
        }
        if self.gpu_resource:
            pool["accelerator"]["products"] = ["NVIDIA-A100-SXM4-80GB"]
        return {
            "pools": [pool],
            "operator": {"resyncSeconds": 10, "figuresSeconds": 5},
            "scheduler": {"persistence": {"size": "1Gi"}},
        }
