"""One real vLLM server on this machine: the small model on the CPU, or the GPU timing emulator."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import httpx

from justitia.local.engine_kind import STEP_BUDGET_TOKENS, EngineKind
from justitia.local.processes import ChildProcess
from justitia.local.small_model import engine_dtype

MODEL_NAME: Final = "smollm2"
READY_TIMEOUT_S: Final = 240.0


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """How a server is started. ``kv_blocks`` x ``block_size_tokens`` is the KV cache."""

    kind: EngineKind
    model_dir: Path
    policy: str = "justitia"
    host: str = "127.0.0.1"
    port: int
    kv_blocks: int
    block_size_tokens: int
    max_model_len_tokens: int = 2048
    max_num_seqs: int = 64
    max_num_batched_tokens: int = STEP_BUDGET_TOKENS
    #: Share of the KV cache that admission leaves free for growth (vLLM --watermark).
    watermark: float = 0.0
    scheduler_address: str = ""
    pool: str = "default"
    log_path: Path
    #: More flags of vLLM, and variables, which go before our own.
    more_flags: Mapping[str, str | int | float] = field(default_factory=dict)
    more_env: Mapping[str, str] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        """Address for OpenAI clients."""
        return f"http://{self.host}:{self.port}/v1"

    @property
    def kv_capacity_tokens(self) -> int:
        """KV cache in tokens."""
        return self.kv_blocks * self.block_size_tokens


def cpu_engine(model_dir: Path, *, port: int, log_path: Path, **changes: Any) -> EngineSettings:
    """Give settings for the small model: blocks of 32 tokens, as vLLM's CPU worker wants them."""
    defaults: dict[str, Any] = {"kv_blocks": 512, "block_size_tokens": 32}
    return EngineSettings(
        kind=EngineKind.CPU,
        model_dir=model_dir,
        port=port,
        log_path=log_path,
        **(defaults | changes),
    )


def emulated_engine(
    model_dir: Path, *, port: int, log_path: Path, **changes: Any
) -> EngineSettings:
    """Give settings for the emulator: the paper's 459 blocks of 16 tokens."""
    defaults: dict[str, Any] = {"kv_blocks": 459, "block_size_tokens": 16, "max_num_seqs": 256}
    return EngineSettings(
        kind=EngineKind.EMULATED,
        model_dir=model_dir,
        port=port,
        log_path=log_path,
        **(defaults | changes),
    )


def engine_command(settings: EngineSettings) -> list[str]:
    """Build the command line of the server."""
    # `vllm serve` of the CPU wheel looks for a distribution named "vllm"; the module always works.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    flags = {
        "--model": settings.model_dir,
        "--served-model-name": MODEL_NAME,
        "--host": settings.host,
        "--port": settings.port,
        "--max-model-len": settings.max_model_len_tokens,
        "--max-num-seqs": settings.max_num_seqs,
        "--max-num-batched-tokens": settings.max_num_batched_tokens,
        "--block-size": settings.block_size_tokens,
        # One block is vLLM's null block and holds nothing.
        "--num-gpu-blocks-override": settings.kv_blocks + 1,
        "--watermark": settings.watermark,
        "--dtype": engine_dtype(),
        "--scheduler-cls": "justitia.vllm_plugin.JustitiaScheduler",
        "--middleware": "justitia.vllm_plugin.RunIdentity",
    }
    switches = ["--enforce-eager", "--enable-prompt-tokens-details"]
    if settings.kind is EngineKind.EMULATED:
        flags["--load-format"] = "dummy"
        flags["--distributed-executor-backend"] = "justitia.vllm_plugin.emulator.EmulatedExecutor"
    else:
        # vLLM's own kernels for norms and activations; eager PyTorch spends half the step there.
        flags["--compilation-config"] = '{"custom_ops": ["all"]}'
        # vLLM 0.32's core dies on a CPU of a client's `seed` if it cuts that prompt into chunks.
        switches.append("--no-enable-chunked-prefill")
    for flag, value in (flags | dict(settings.more_flags)).items():
        command += [flag, str(value)]
    return command + switches


def engine_env(settings: EngineSettings) -> dict[str, str]:
    """Build what the server needs in its environment beside ours."""
    return {
        "JUSTITIA_POLICY": settings.policy,
        "JUSTITIA_SCHEDULER_ADDRESS": settings.scheduler_address,
        "JUSTITIA_POOL": settings.pool,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # vLLM would keep one core for itself: half the speed on a machine of two.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(len(os.sched_getaffinity(0))),
        # Longer than clients keep idle connections (5 s): a request sent as the server closes one
        # would fail.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "60",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        **settings.more_env,
    }


class EngineServer:
    """A running server; an async context manager that ends it."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.process = ChildProcess(
            f"vLLM ({settings.policy})",
            engine_command(settings),
            log_path=settings.log_path,
            env=engine_env(settings),
        )

    async def __aenter__(self) -> Self:
        """Start it and wait until it answers."""
        await self.process.start_ready(self._is_healthy, timeout_s=READY_TIMEOUT_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it."""
        await self.process.stop()

    def core_pid(self) -> int:
        """Process id of the engine core, a child of the server.

        Raises:
            LookupError: there is none.
        """
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _is_core_of(entry, self.process.pid):
                return int(entry.name)
        raise LookupError("the server has no engine core")

    async def metrics(self) -> Mapping[str, float]:
        """Read vLLM's own /metrics, summed over labels by name."""
        async with httpx.AsyncClient(trust_env=False) as client:
            response = await client.get(f"http://{self.settings.host}:{self.settings.port}/metrics")
            response.raise_for_status()
        return sum_samples(response.text)

    async def _is_healthy(self) -> bool:
        try:
            async with httpx.AsyncClient(trust_env=False) as client:
                url = f"http://{self.settings.host}:{self.settings.port}/health"
                return (await client.get(url, timeout=2.0)).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False


def _is_core_of(process: Path, parent_pid: int) -> bool:
    try:
        parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
        return parent == parent_pid and "EngineCor" in (process / "comm").read_text()
    except (OSError, IndexError):  # it ended meanwhile
        return False


def sum_samples(exposition: str) -> dict[str, float]:
    """Sum the samples of a Prometheus text exposition by metric name."""
    totals: dict[str, float] = {}
    for line in exposition.splitlines():
        if line and not line.startswith("#"):
            name, value = line.split("{", 1)[0].split(" ", 1)[0], line.rsplit(" ", 1)[1]
            totals[name] = totals.get(name, 0.0) + float(value)
    return totals
