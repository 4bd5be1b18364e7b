"""Unpack a GGUF model into a Hugging Face folder: ``python -m ... MODEL.gguf FOLDER``.

Run as a process of its own by ``justitia.local.small_model``.
"""

import sys
from pathlib import Path
from typing import Any

_QUESTION = "What is the capital of France?"


def convert(gguf: Path, folder: Path) -> None:
    """Write config, tokenizer and bfloat16 weights of ``gguf`` into ``folder``, which is made.

    Raises:
        ValueError: the tokenizer has no chat template that ends with the assistant's turn, so
            that chat completions would not be answered.
    """
    import torch  # noqa: PLC0415 - seconds to import, needed by this process alone
    from safetensors.torch import save_file  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    _check_chat_template(tokenizer)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16)
    # save_pretrained refuses a model that was quantised as GGUF, so the parts are written.
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.architectures = ["LlamaForCausalLM"]
    folder.mkdir(parents=True)
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # The output layer is tied to the embedding, which already carries it.
    weights = {
        name: tensor.to(torch.bfloat16).contiguous().clone()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _check_chat_template(tokenizer: Any) -> None:
    message = {"role": "user", "content": _QUESTION}
    prompt = tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
    if _QUESTION not in prompt or not prompt.endswith("<|im_start|>assistant\n"):
        raise ValueError(f"the chat template does not open the assistant's turn: {prompt!r}")


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
