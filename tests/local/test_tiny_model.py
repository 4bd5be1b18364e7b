import json

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from justitia.local.tiny_model import ensure_tiny_model


def test_any_text_comes_back_and_a_chat_opens_the_assistants_turn(tmp_path):
    stages = []
    folder = ensure_tiny_model(tmp_path, progress=stages.append)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "for x in range(3): print('ünïcode — 你好 \U0001f600')\n\t"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    chat = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    prompt = chat.render(messages=[{"role": "user", "content": "hi"}], add_generation_prompt=True)
    assert prompt == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.encode(prompt).tokens[0] == "<|im_start|>"
    config = json.loads((folder / "config.json").read_text())
    assert config["vocab_size"] >= tokenizer.get_vocab_size()
    assert config["max_position_embeddings"] == 8192
    assert ensure_tiny_model(tmp_path, progress=stages.append) == folder
    assert len(stages) == 1


def test_a_folder_without_its_configuration_is_made_again(tmp_path):
    folder = ensure_tiny_model(tmp_path, progress=lambda _: None)
    tokenizer_text = (folder / "tokenizer.json").read_text()
    (folder / "config.json").unlink()
    (folder / "tokenizer.json").write_text("{")
    ensure_tiny_model(tmp_path, progress=lambda _: None)
    assert (folder / "tokenizer.json").read_text() == tokenizer_text
