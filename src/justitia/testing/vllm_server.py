"""Starts a real vLLM server over the GPU timing emulator, for tests.

No model, no GPU, one free port.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 4096,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
_START_TIMEOUT_S = 300.0
_STOP_TIMEOUT_S = 15.0


def write_byte_model(folder: Path) -> Path:
    """Write a configuration and a tokenizer of one token per byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415 - slow
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_LLAMA))
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: index for index, text in enumerate(["<s>", "</s>", "<unk>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )
    fast.chat_template = _TEMPLATE
    fast.save_pretrained(folder)
    return folder


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    process: "subprocess.Popen[bytes]"
    url: str
    log: Path

    def engine_core_pid(self) -> int:
        """Process id of the engine core, a child of the server."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                name = (entry / "comm").read_text()
            except (OSError, IndexError):
                continue
            if parent == self.process.pid and name.startswith("VLLM::EngineCor"):
                return int(entry.name)
        raise LookupError("the server has no engine core")


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running_server(
    model: Path,
    log: Path,
    *,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run a server with Justitia over the emulator until the block ends."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--served-model-name", "emulated", "--load-format", "dummy"),
        *("--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16"),
        *("--distributed-executor-backend", "justitia.vllm_plugin.emulator.EmulatedExecutor"),
        *("--scheduler-cls", "justitia.vllm_plugin.JustitiaScheduler"),
        *("--middleware", "justitia.vllm_plugin.RunIdentity"),
        *flags,
    ]
    env = {**os.environ, "VLLM_LOGGING_LEVEL": "WARNING", **(environment or {})}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=env)
        server = Server(process, f"http://127.0.0.1:{port}", log)
        try:
            _wait_until_healthy(server)
            yield server
        finally:
            _stop(process)


def _wait_until_healthy(server: Server) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if server.process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{server.url}/health", timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the server did not start:\n{server.log.read_text()[-4000:]}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
