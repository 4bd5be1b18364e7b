"""Samples that wait for a sick disk: bounded in number and bytes, and what goes is counted."""

from dataclasses import replace

import pytest

from justitia_scheduler import pool_changes
from justitia_scheduler.pool_changes import PoolChanges
from justitia_scheduler.store import SampleRow, Transaction, WriteError

ROW = SampleRow(
    pool="default",
    application="chat",
    run_id="r",
    prompt_text="",
    cost_kvtt=1,
    num_inferences=1,
    finished_at_s=0.0,
)


def add(changes, *texts):
    for cost, text in enumerate(texts, start=1):
        changes.sample(replace(ROW, prompt_text=text, cost_kvtt=cost))


def write_all(changes):
    """Let a commit take what waits."""
    transaction = Transaction(samples=list(changes.samples))
    changes.written(transaction, forgotten=changes.forgotten, blanked=changes.blanked)


def prompts(changes):
    return [row.prompt_text for row in changes.samples]


@pytest.fixture
def changes(monkeypatch):
    """Ten bytes of prompts may wait, and five samples."""
    monkeypatch.setattr(pool_changes, "MAX_WAITING_PROMPT_BYTES", 10)
    monkeypatch.setattr(pool_changes, "MAX_WAITING_SAMPLES", 5)
    return PoolChanges()


def test_beyond_the_bytes_that_may_wait_costs_are_kept_and_prompts_are_not(changes):
    add(changes, "\u00e9\u00e9", "1234567", "123456", "x", "")
    assert prompts(changes) == ["\u00e9\u00e9", "", "123456", "", ""]
    assert [row.cost_kvtt for row in changes.samples] == [1, 2, 3, 4, 5]
    taken = changes.take(most_progressed=0)
    assert (taken.num_blanked, taken.num_lost) == (2, 0)
    taken = changes.take(most_progressed=0)
    assert (taken.num_blanked, taken.num_lost) == (0, 0)


def test_beyond_their_number_samples_are_lost_and_counted(changes):
    add(changes, *"abcdefg")
    assert prompts(changes) == [*"abcde"]
    assert changes.take(most_progressed=0).num_lost == 2


def test_what_is_written_or_forgotten_makes_room(changes):
    for make_room in (write_all, lambda changes: changes.application("chat", is_gone=True)):
        add(changes, "1234567890")
        make_room(changes)
    add(changes, "1234567890")
    assert prompts(changes) == ["1234567890"]


def test_a_prompt_that_a_commit_has_under_way_takes_its_bytes_until_it_is_written(changes):
    add(changes, "1234567890")
    changes.blank("chat")
    changes.application("other", is_gone=True)
    add(changes, "x")
    assert prompts(changes) == ["", ""]
    write_all(changes)
    add(changes, "x")
    assert prompts(changes) == ["x"]


async def test_what_a_sick_disk_costs_is_shown_while_it_is_sick(bench, monkeypatch):
    def refuse(_):
        raise WriteError("disk full")

    def shown(name):
        return bench.metric(f"justitia_samples_{name}_total", pool="default")

    monkeypatch.setattr(pool_changes, "MAX_WAITING_PROMPT_BYTES", 10)
    monkeypatch.setattr(pool_changes, "MAX_WAITING_SAMPLES", 5)
    await bench.declare("chat")
    assert (shown("without_prompt"), shown("lost")) == (0, 0)
    with monkeypatch.context() as patch:
        patch.setattr(bench.service.store(), "commit", refuse)
        add(bench.pool.changes, "1234567", "12345", "x", "y", "z", "lost")
        await bench.service.journal.flush()
        assert not bench.service.journal.is_healthy
        assert (shown("without_prompt"), shown("lost")) == (1, 1)
        monkeypatch.setattr(pool_changes, "MAX_WAITING_SAMPLES", 6)
        add(bench.pool.changes, "12345", "lost")
        await bench.service.journal.flush()  # tries the whole state
        assert (shown("without_prompt"), shown("lost")) == (2, 2)
    await bench.service.journal.flush()
    assert (shown("without_prompt"), shown("lost")) == (2, 2)
    stored = bench.service.store().samples("default", "chat", after=0, limit=99)
    assert [row.prompt_text for _, row in stored] == ["1234567", "", "x", "y", "z", ""]
