import sys

import pytest

from justitia.local.agents import load_agents
from justitia.local.errors import LocalModeError

KIT = "class Llm: ...\n"
AGENT = """
import agentkit
APPLICATION = "x"
def make_task(seed): ...
async def run(llm, task): ...
"""


@pytest.fixture(autouse=True)
def _keep_the_examples_modules(monkeypatch):
    """Other tests of this process go on with the modules of examples/agents."""
    for name in ("agentkit", "one", "two"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in ("agentkit", "one", "two"):
        sys.modules.pop(name, None)


def test_a_users_own_folder_of_agents_is_loaded(tmp_path):
    (tmp_path / "agentkit.py").write_text(KIT)
    (tmp_path / "one.py").write_text(AGENT)
    agents = load_agents(tmp_path)
    assert list(agents) == ["x"]
    assert agents["x"].make_llm.__module__ == "agentkit"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no agentkit.py"),
        ({"agentkit.py": KIT}, "holds no agents"),
        ({"agentkit.py": KIT, "one.py": AGENT, "two.py": AGENT}, "named x"),
        ({"agentkit.py": KIT, "one.py": "1 / 0"}, "one.py does not load: ZeroDivisionError"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_in_one_sentence(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(LocalModeError, match=message):
        load_agents(tmp_path)
