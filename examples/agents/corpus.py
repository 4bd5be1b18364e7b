"""Real text that comes with every Python: the language reference, sources and their docstrings.

The texts stand on shelves, none on two of them: what is learnt from tasks of some shelves can be
judged fairly on those of another.
"""

import ast
import importlib.util
import math
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics

from agentkit import NUM_SHELVES

_MODULES = """
    argparse ast base64 bisect calendar cmd codecs codeop colorsys compileall configparser
    contextlib copy csv ctypes.util dataclasses difflib dis doctest email.utils enum filecmp
    fnmatch fractions ftplib functools getopt getpass gettext glob gzip heapq html http.client
    http.cookiejar http.cookies imaplib inspect ipaddress json keyword linecache locale logging
    logging.config lzma mailbox mimetypes modulefinder netrc ntpath numbers operator optparse os
    pathlib pdb pickle pickletools pkgutil platform plistlib poplib posixpath pprint profile
    pstats py_compile pyclbr pydoc queue quopri random reprlib runpy sched selectors shelve
    shlex shutil smtplib socket ssl statistics string stringprep subprocess symtable sysconfig
    tabnanny tarfile tempfile textwrap threading timeit tokenize trace traceback turtle types
    typing unittest.mock urllib.parse urllib.request uuid warnings wave weakref webbrowser
    xml.dom.minidom xmlrpc.client zipapp zipfile zipimport
""".split()  # noqa: SIM905 - shorter to read than quoted names


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


@dataclass(frozen=True, slots=True)
class Shelf:
    """Sentences in order, functions' sources, and functions with what their docstrings say."""

    sentences: tuple[str, ...]
    functions: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]

    def document(self, rng: random.Random, *, chars: int) -> str:
        """Return a passage of the language reference, of about that length."""
        start = rng.randrange(len(self.sentences))
        passage: list[str] = []
        size = 0
        while size < chars:
            sentence = self.sentences[(start + len(passage)) % len(self.sentences)]
            passage.append(sentence)
            size += len(sentence) + 1
        return " ".join(passage)

    def function_source(self, rng: random.Random, *, max_chars: int) -> str:
        """Return the source of a standard-library function."""
        return rng.choice([source for source in self.functions if len(source) <= max_chars])


def shelf(seed: int) -> Shelf:
    """Return the shelf that a task with this seed takes its texts from."""
    return _shelves()[seed % NUM_SHELVES]


def spread(rng: random.Random, low: float, high: float) -> int:
    """Return a size between both, evenly spread over its logarithm: many small, few large."""
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def words(text: str) -> set[str]:
    """Return the words of ``text`` that a search compares."""
    return set(re.findall(r"[a-z]{4,}", text.lower()))


def best_match(query: str, passages: tuple[str, ...]) -> str:
    """Return the passage that shares most words with ``query``; the first of equals."""
    wanted = words(query)
    return max(passages, key=lambda passage: len(wanted & words(passage)))


@cache
def _shelves() -> tuple[Shelf, ...]:
    seen: set[str] = set()
    return tuple(
        Shelf(tuple(sentences), tuple(sources), tuple(_facts(sources, seen)))
        for sentences, sources in zip(_sentences_by_shelf(), _functions_by_shelf(), strict=True)
    )


def _sentences_by_shelf() -> list[list[str]]:
    """Cut the topics, in order, into parts of about one size; a sentence stands where it is first.

    Topics are never cut: they quote each other, and neighbouring sentences share their words.
    """
    seen: set[str] = set()
    topic_sentences = [_new(_sentences(topics[name]), seen) for name in sorted(topics)]
    num_sentences = sum(map(len, topic_sentences))
    shelves: list[list[str]] = [[] for _ in range(NUM_SHELVES)]
    num_before = 0
    for sentences in topic_sentences:
        middle = num_before + len(sentences) / 2
        shelves[int(NUM_SHELVES * middle / (num_sentences + 1))] += sentences
        num_before += len(sentences)
    return shelves


def _sentences(topic: str) -> list[str]:
    plain = " ".join(re.sub(r"[*\-=~^\"]{3,}", " ", topic).split())
    found = re.split(r"(?<=[.:])\s+(?=[A-Z])", plain)
    return [text for text in found if len(text) in _SENTENCE_CHARS and _is_prose(text)]


def _is_prose(text: str) -> bool:
    """Tell prose from grammar rules, tables and examples, which are full of signs."""
    return sum(char.isalpha() or char == " " for char in text) >= _MIN_LETTER_SHARE * len(text)


def _functions_by_shelf() -> list[list[str]]:
    """Deal the modules out in turn."""
    seen: set[str] = set()
    shelves: list[list[str]] = [[] for _ in range(NUM_SHELVES)]
    for index, module in enumerate(_MODULES):
        shelves[index % NUM_SHELVES] += _new(_functions(module), seen)
    return shelves


def _functions(module: str) -> list[str]:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return []
    source = Path(spec.origin).read_text(encoding="utf-8")
    lines = source.splitlines()
    spans = [
        lines[node.lineno - 1 : node.end_lineno]
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    ]
    return ["\n".join(span) for span in spans if len(span) >= _MIN_FUNCTION_LINES]


def _facts(sources: Iterable[str], seen: set[str]) -> Iterable[tuple[str, str]]:
    """Return functions and what their docstrings say: a knowledge base."""
    found: dict[str, str] = {}
    for source in sources:
        node = ast.parse(source).body[0]
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        summary = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
        if len(summary) in _SUMMARY_CHARS and _new([summary], seen):
            found.setdefault(node.name, summary)
    return found.items()


def _new(texts: Iterable[str], seen: set[str]) -> list[str]:
    """Return the texts that are not among ``seen`` yet, and add them."""
    fresh = [text for text in dict.fromkeys(texts) if text not in seen]
    seen.update(fresh)
    return fresh
