"""Real text that comes with every Python: the language reference, sources and their docstrings."""

import ast
import importlib.util
import math
import random
import re
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics

_MODULES = """
    argparse bisect calendar cmd colorsys configparser csv dataclasses difflib filecmp fnmatch
    fractions functools gettext glob heapq html imaplib inspect ipaddress json keyword
    linecache locale mailbox mimetypes netrc numbers operator pathlib plistlib posixpath
    pprint queue quopri random reprlib sched shelve shlex shutil statistics string stringprep
    tempfile textwrap timeit tokenize trace traceback types urllib.parse uuid warnings wave
    weakref zipfile
""".split()  # noqa: SIM905 - shorter to read than sixty quoted names


# Sentences and summaries that are neither fragments nor whole sections, in characters.
_SENTENCE_CHARS = range(30, 301)
_SUMMARY_CHARS = range(25, 161)
_MIN_FUNCTION_LINES = 4
_MIN_LETTER_SHARE = 0.9


def split_document(text: str, *, chunk_chars: int) -> tuple[str, ...]:
    """Cut ``text`` into chunks of about that size, at ends of sentences where there are any."""
    chunks, current = [], ""
    for sentence in re.split(r"(?<=[.:])\s+", text):
        if current and len(current) + len(sentence) > chunk_chars:
            chunks.append(current)
            current = ""
        current = f"{current} {sentence}".strip()[: 2 * chunk_chars]
    return (*chunks, current) if current else tuple(chunks)


def document(rng: random.Random, *, chars: int) -> str:
    """Return a passage of the language reference, of about that length."""
    sentences = _sentences()
    start = rng.randrange(len(sentences))
    passage: list[str] = []
    size = 0
    while size < chars:
        sentence = sentences[(start + len(passage)) % len(sentences)]
        passage.append(sentence)
        size += len(sentence) + 1
    return " ".join(passage)


def spread(rng: random.Random, low: float, high: float) -> int:
    """Return a size between both, evenly spread over its logarithm: many small, few large."""
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def function_source(rng: random.Random, *, max_chars: int) -> str:
    """Return the source of a standard-library function."""
    return rng.choice([source for source in _functions() if len(source) <= max_chars])


def facts(rng: random.Random, *, count: int) -> list[tuple[str, str]]:
    """Return that many standard-library functions, each with what its docstring says it does."""
    return rng.sample(all_facts(), count)


def words(text: str) -> set[str]:
    """Return the words of ``text`` that a search compares."""
    return set(re.findall(r"[a-z]{4,}", text.lower()))


def best_match(query: str, passages: tuple[str, ...]) -> str:
    """Return the passage that shares most words with ``query``; the first of equals."""
    wanted = words(query)
    return max(passages, key=lambda passage: len(wanted & words(passage)))


@cache
def _sentences() -> tuple[str, ...]:
    plain = (re.sub(r"[*\-=~^\"]{3,}", " ", topics[name]) for name in sorted(topics))
    joined = " ".join(" ".join(text.split()) for text in plain)
    found = re.split(r"(?<=[.:])\s+(?=[A-Z])", joined)
    return tuple(text for text in found if len(text) in _SENTENCE_CHARS and _is_prose(text))


def _is_prose(text: str) -> bool:
    """Tell prose from grammar rules, tables and examples, which are full of signs."""
    return sum(char.isalpha() or char == " " for char in text) >= _MIN_LETTER_SHARE * len(text)


@cache
def _functions() -> tuple[str, ...]:
    found = []
    for name in _MODULES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            continue
        source = Path(spec.origin).read_text(encoding="utf-8")
        lines = source.splitlines()
        spans = [
            lines[node.lineno - 1 : node.end_lineno]
            for node in ast.parse(source).body
            if isinstance(node, ast.FunctionDef)
        ]
        found += ["\n".join(span) for span in spans if len(span) >= _MIN_FUNCTION_LINES]
    return tuple(found)


@cache
def all_facts() -> tuple[tuple[str, str], ...]:
    """Return the whole knowledge base: functions and what their docstrings say."""
    found: dict[str, str] = {}
    for source in _functions():
        node = ast.parse(source).body[0]
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        summary = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
        if len(summary) in _SUMMARY_CHARS:
            found.setdefault(node.name, summary)
    return tuple(found.items())
