"""Make a model folder without weights, for engines that compute nothing.

vLLM's ``--load-format dummy`` and the GPU timing emulator need a configuration and a tokenizer
only. The tokenizer is byte-level BPE learnt from Python's language reference, so that prompts have
about as many tokens as with a real one; any text can be encoded.
"""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Final

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from justitia.local.errors import LocalModeError

FOLDER_NAME: Final = "tiny-llama"

_VOCABULARY_SIZE: Final = 4096
_MAX_POSITIONS: Final = 8192
_BOS: Final = "<|im_start|>"
_EOS: Final = "<|im_end|>"
_CHAT_TEMPLATE: Final = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Written last: a folder without it is torn.
_LAST_FILE: Final = "config.json"


def ensure_tiny_model(cache_dir: Path, *, progress: Callable[[str], None]) -> Path:
    """Return the folder under ``cache_dir``; make it if it is not there. Downloads nothing.

    Raises:
        LocalModeError: ``cache_dir`` cannot be written.
    """
    folder = cache_dir / FOLDER_NAME
    if (folder / _LAST_FILE).is_file():
        return folder
    progress("making a tokenizer for the emulator")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / "tokenizer.json", _train_tokenizer().to_str())
        _put(folder / "tokenizer_config.json", json.dumps(_tokenizer_config(), indent=2))
        _put(folder / _LAST_FILE, json.dumps(_model_config(), indent=2))
    except OSError as error:
        raise LocalModeError(
            f"The emulator's model folder cannot be written: {error}. Choose another cache folder."
        ) from error
    return folder


def _put(path: Path, text: str) -> None:
    """Write a file in one rename, so that another process never reads half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).replace(path)


def _train_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY_SIZE,
        special_tokens=[_BOS, _EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((topics[name] for name in sorted(topics)), trainer)
    return tokenizer


def _tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _BOS,
        "eos_token": _EOS,
        "pad_token": _EOS,
        "model_max_length": _MAX_POSITIONS,
        "chat_template": _CHAT_TEMPLATE,
    }


def _model_config() -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": _VOCABULARY_SIZE,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": _MAX_POSITIONS,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
        "dtype": "bfloat16",
    }
