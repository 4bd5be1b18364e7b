"""The product on a cluster: a Helm release with one pool, and a client in a pod of its own."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kube.commands import Commands
from kube.environment import CLIENT_COMPONENT
from kube.images import version

MODEL_NAME: Final = "emulated"
POOL: Final = "default"
RELEASE: Final = "justitia"

_ROOT: Final = Path(__file__).resolve().parents[3]
_CHART: Final = _ROOT / "charts" / "justitia"
_MODEL_PATH: Final = "/models/tiny"
_INSTALL_TIMEOUT: Final = "10m"
_INSTALL_TIMEOUT_S: Final = 660.0

_AGENT: Final = """
import asyncio, json, sys
import httpx, openai

async def main(application, num_runs, num_inferences, max_tokens, prefix):
    async with openai.AsyncOpenAI(
        base_url="http://default:8000/v1", api_key="none", timeout=120,
        http_client=httpx.AsyncClient(trust_env=False),
    ) as client:
        async def run(number):
            headers = {"x-justitia-application": application,
                       "x-justitia-run-id": f"{prefix}-{number}"}
            tokens = 0
            for step in range(num_inferences):
                answer = await client.chat.completions.create(
                    model="emulated", max_tokens=max_tokens, extra_headers=headers,
                    messages=[{"role": "user", "content": f"task {number} " * (5 + number % 7)}],
                    extra_body={"ignore_eos": True},
                )
                tokens += answer.usage.completion_tokens
            return tokens
        print(json.dumps(await asyncio.gather(*(run(n) for n in range(num_runs)))))

asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]))
"""


@dataclass(frozen=True, slots=True)
class Release:
    """One release in one namespace."""

    commands: Commands
    namespace: str
    #: Extended resource of a GPU; empty where the cluster has none.
    gpu_resource: str
    folder: Path

    def install(self, **changes: Any) -> None:
        """Install or upgrade it, and wait until all of its pods are ready."""
        values = self.folder / "values.json"
        values.write_text(json.dumps(self._values() | changes))  # JSON is YAML
        self.commands.helm(
            *("upgrade", "--install", RELEASE, str(_CHART), "--namespace", self.namespace),
            *("--values", str(values), "--wait", "--timeout", _INSTALL_TIMEOUT),
            timeout_s=_INSTALL_TIMEOUT_S,
        )

    def put_model(self, model: Path) -> None:
        """Make the emulator's model folder a ConfigMap."""
        files = [f"--from-file={file}" for file in sorted(model.iterdir())]
        self.kubectl("create", "configmap", "tiny-model", *files)

    def start_client(self) -> None:
        """Start a pod with the openai library."""
        container = {
            "name": "main",
            "image": f"justitia/vllm-cpu:{version()}",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sleep", "86400"],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "client",
                "namespace": self.namespace,
                "labels": {"app.kubernetes.io/component": CLIENT_COMPONENT},
            },
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
        }
        self.commands.apply(pod)
        self.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=120s")

    def serve_runs(
        self,
        application: str,
        *,
        prefix: str,
        num_runs: int,
        num_inferences: int = 2,
        max_tokens: int = 16,
    ) -> list[int]:
        """Run an agent through the OpenAI client; returns the tokens that each run got."""
        sizes = (str(num_runs), str(num_inferences), str(max_tokens))
        command = ("python3", "-c", _AGENT, application, *sizes, prefix)
        tokens: list[int] = json.loads(self.kubectl("exec", "client", "--", *command))
        return tokens

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl in the release's namespace."""
        return self.commands.kubectl("--namespace", self.namespace, *arguments, text=text)

    def application(self, name: str) -> dict[str, Any]:
        """Read an LLMApplication."""
        found: dict[str, Any] = json.loads(self.kubectl("get", "llmapp", name, "-o", "json"))
        return found

    def metrics(self, service: str) -> str:
        """Read the metrics of a Service through the API server."""
        path = f"/api/v1/namespaces/{self.namespace}/services/{service}:metrics/proxy/metrics"
        return self.commands.kubectl("get", "--raw", path)

    def _values(self) -> dict[str, Any]:
        pool: dict[str, Any] = {
            "name": POOL,
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
