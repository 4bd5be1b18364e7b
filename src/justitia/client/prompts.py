"""What of a prompt goes to the scheduler service: its text, its words hashed, or its length alone.

Hashed: every word becomes five letters that follow from it and from a key that the service never
sees, and the words are put in alphabetical order of the result. So the service can learn that runs
with a certain word cost more, and neither which word it is nor what the prompt says. What remains
visible: how long the prompt is, how many words and lines it has, which prompts share words and how
often. Somebody with the key can test guesses; without any key, so could everybody: it is required.

All clients of an application need the same key: with another one, what was learnt is lost.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Final

from justitia.core.limits import MAX_PROMPT_BYTES
from justitia.core.privacy import HASHED_WORD_LETTERS, Privacy

#: Shortest key, bytes: guessing it must not be easier than guessing words.
MIN_KEY_BYTES: Final = 16
#: Longest key that BLAKE2b takes.
MAX_KEY_BYTES: Final = 64
#: Characters of a prompt whose words are hashed, at its head and at its tail each: what a predictor
#: reads of a text.
_HALF_CHARS: Final = 4096
_LETTERS: Final = 26
# Of one character more than there is room for: it, or the word that it is of.
_CUT_END: Final = re.compile(r"(?:[a-z]+|[^a-z])\Z")
_CUT_BEGIN: Final = re.compile(r"\A(?:[a-z]+|[^a-z])")
# Letters or digits in a row; of scripts without blanks each character.
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD: Final = re.compile(rf"[^\W\d_{_UNSPACED}]+|\d+|[{_UNSPACED}]")


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptPolicy:
    """What may leave this process, whatever the service would take.

    Raises:
        ValueError: Hashed without a key of 16 to 64 bytes.
    """

    privacy: Privacy = Privacy.TEXT
    key: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        is_hashed = self.privacy is Privacy.HASHED
        if is_hashed and not MIN_KEY_BYTES <= len(self.key) <= MAX_KEY_BYTES:
            raise ValueError(
                f"prompt_key must have {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes for hashed prompts,"
                f" got {len(self.key)}"
            )

    def fields(self, prompt: str) -> dict[str, Any]:
        """Return the fields of StartRunRequest that tell of a prompt.

        A prompt that no UTF-8 can hold (lone surrogates) is sent with question marks for them, and
        one of more than ``MAX_PROMPT_BYTES`` as its begin and its end: the estimate is only that,
        and an agent must not fail for it.
        """
        prompt = prompt.encode("utf-8", "replace").decode("utf-8")
        match self.privacy:
            case Privacy.TEXT:
                return {"prompt_text": _bounded(prompt)}
            case Privacy.HASHED:
                return {"hashed_prompt": hash_prompt(prompt, self.key)}
        return {"prompt_chars": len(prompt)}


def hash_prompt(prompt: str, key: bytes) -> str:
    """Hash the words of a prompt; the result is a text that says nothing.

    A prompt of more than 8192 characters keeps its length. A shorter one becomes as long as its
    words are many: about as long as it was in a script with blanks, up to six times as long in one
    without, where each character is a word. No word is cut, neither here nor where a predictor
    cuts, and of a prompt that keeps its length the predictor finds all marks that it would read.
    """
    if len(prompt) > 2 * _HALF_CHARS:
        head_words, head_marks = _hashed(prompt[:_HALF_CHARS], key)
        tail_words, tail_marks = _hashed(prompt[-_HALF_CHARS:], key)
        return _shortened(head_marks + head_words, tail_words + tail_marks, len(prompt))
    words, marks = _hashed(prompt, key)
    hashed = words + marks
    return _shortened(hashed, hashed, len(hashed)) if len(hashed) > 2 * _HALF_CHARS else hashed


def _bounded(prompt: str) -> str:
    encoded = prompt.encode()
    if len(encoded) <= MAX_PROMPT_BYTES:
        return prompt
    half = MAX_PROMPT_BYTES // 2
    # A character that the cut goes through is left out.
    return "".join(part.decode(errors="ignore") for part in (encoded[:half], encoded[-half:]))


def _shortened(head: str, tail: str, num_chars: int) -> str:
    """Return the begin of one text and the end of another, whole words, blanks between them."""
    if len(head) > _HALF_CHARS:
        head = _CUT_END.sub("", head[: _HALF_CHARS + 1])
    if len(tail) > _HALF_CHARS:
        tail = _CUT_BEGIN.sub("", tail[-_HALF_CHARS - 1 :])
    # Its length stays what it was, as far as it may: the best single hint at a run's cost.
    return head.ljust(min(num_chars, MAX_PROMPT_BYTES) - len(tail)) + tail


def _hashed(text: str, key: bytes) -> tuple[str, str]:
    """Return the words hashed and in order, and the marks that count: questions and line ends."""
    words = sorted(_hash_word(word, key) for word in _WORD.findall(text.lower()))
    return " ".join(words), "?" * text.count("?") + "\n" * text.count("\n")


def _hash_word(word: str, key: bytes) -> str:
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), key=key, digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(HASHED_WORD_LETTERS):
        number, letter = divmod(number, _LETTERS)
        letters.append(chr(ord("a") + letter))
    return "".join(letters)
