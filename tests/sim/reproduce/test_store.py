"""Outcomes on disk: they come back as they were, and only from the code that made them."""

import gzip
import json
import os
from dataclasses import fields, make_dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia.core.learning import LearningRules
from justitia.sim.engine import EngineTotals
from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce import source_digest as digests
from justitia.sim.reproduce import store as stores
from justitia.sim.reproduce.experiment import Case, Measurement, Play
from justitia.sim.reproduce.outcome_codec import decode, encode
from justitia.sim.reproduce.source_digest import source_digest
from justitia.sim.reproduce.store import OutcomeStore, entry_name
from justitia.sim.results import PlayResult, RunResult
from justitia.sim.workloads.generate import generate
from justitia.testing.sim_jobs import number, small_scenario

PLAY = Play(Case.of(small_scenario, seed=1), "vtc")
NUMBER = Measurement.of(number, value=1)

_KINDS = {
    "str": st.text(max_size=5),
    "int": st.integers(0, 2**63),
    "float": st.floats(allow_nan=False) | st.integers(0, 5),
}


def rows(kind):
    fields = {
        field.name: _KINDS[getattr(field.type, "__name__", field.type)]
        for field in kind.__dataclass_fields__.values()
    }
    return st.lists(st.builds(kind, **fields), max_size=4).map(tuple)


@given(
    st.builds(
        PlayResult,
        policy=_KINDS["str"],
        runs=rows(RunResult),
        engines=rows(EngineTotals),
        duration_s=_KINDS["float"],
        useful_kvtt=_KINDS["int"],
        wasted_kvtt=_KINDS["int"],
        surplus_kvtt=_KINDS["float"],
    )
)
def test_a_play_comes_back_from_json_exactly(result):
    back = decode(json.loads(json.dumps(encode(result))))
    assert back == result
    # 1 == 1.0, but they are not the same.
    assert repr(back) == repr(result)


@pytest.mark.parametrize("outcome", [None, 0.1, {"a": [1, "b", {"play": 1}]}, {"play": {}}])
def test_what_json_can_hold_comes_back(tmp_path, outcome):
    store = OutcomeStore(tmp_path / "new")
    store.put(NUMBER, outcome)
    assert store.get(NUMBER) == outcome


def test_a_kept_play_is_the_same_as_one_that_is_played_anew(tmp_path):
    store = OutcomeStore(tmp_path)
    assert not store.has(PLAY)
    store.put(PLAY, PLAY.run())
    assert store.has(PLAY)
    assert store.get(PLAY) == PLAY.run()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-9],
        lambda _: b"",
        lambda _: gzip.compress(b"[1"),
        lambda _: gzip.compress(b"\xff"),
        lambda _: gzip.compress(b"[1]"),
        lambda _: gzip.compress(b'{"job": "another", "value": 1}'),
    ],
)
def test_a_damaged_entry_counts_for_nothing_and_is_replaced(tmp_path, damage):
    store = OutcomeStore(tmp_path)
    store.put(NUMBER, 1)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert not store.has(NUMBER)
    with pytest.raises(LookupError, match=r"number\(value=1\)"):
        store.get(NUMBER)
    store.put(NUMBER, 1)
    assert store.get(NUMBER) == 1


def test_an_entry_whose_columns_do_not_fit_is_no_outcome(tmp_path):
    store = OutcomeStore(tmp_path)
    store.put(PLAY, PLAY.run())
    (path,) = tmp_path.iterdir()
    document = json.loads(gzip.decompress(path.read_bytes()))
    document["play"]["runs"]["run_id"].pop()
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    with pytest.raises(LookupError):
        store.get(PLAY)


def test_what_older_code_made_is_not_used_and_goes(tmp_path, monkeypatch):
    store = OutcomeStore(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(stores, "source_digest", lambda _: "older")
        store.put(NUMBER, 1)
        store.put(PLAY, PLAY.run())
    assert not store.has(NUMBER)
    store.put(NUMBER, 2)
    assert store.get(NUMBER) == 2
    assert len(list(tmp_path.iterdir())) == 2  # the play's old one may be wanted again


def test_what_nobody_has_wanted_for_a_month_goes(tmp_path):
    store = OutcomeStore(tmp_path)
    store.put(NUMBER, 1)
    store.put(PLAY, PLAY.run())
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    assert store.has(PLAY)
    store.tidy()
    assert store.has(PLAY)
    assert not store.has(NUMBER)
    OutcomeStore(tmp_path / "none").tidy()


def test_what_cannot_be_kept_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        OutcomeStore(tmp_path).put(NUMBER, {1, 2})
    assert list(tmp_path.iterdir()) == []


def test_a_digest_covers_what_a_play_comes_from_and_nothing_else():
    modules = digests._all_modules(digests._modules_of(Play(Case.of(generate, seed=1), "vtc")))
    assert {
        "justitia.sim.loop",
        "justitia.sim.fast.engine",
        "justitia.sim.workloads.tables",
        "justitia.core.virtual_time",
        "justitia.core.policies",
        "justitia.step_time",
    } <= set(modules)
    assert not [name for name in modules if name.startswith(("justitia.cli", "justitia.local"))]
    assert "justitia.sim.reproduce.catalogue" not in modules


def test_a_digest_follows_modules_that_are_imported_by_name_or_inside_functions():
    modules = digests._all_modules(("justitia.cli.sim",))
    assert {"justitia.cli.sim_workloads", "justitia.sim.exact.make"} <= set(modules)


def test_a_digest_covers_the_files_that_a_job_reads(tmp_path):
    file, other = tmp_path / "trace", tmp_path / "other"
    file.write_text("one")
    other.write_text("two")
    job, same = (Measurement.of(number, value=file) for _ in range(2))
    assert source_digest(job) == source_digest(same)
    assert source_digest(job) != source_digest(Measurement.of(number, value=other))
    assert source_digest(job) != source_digest(PLAY)


def test_a_digest_covers_what_a_warm_up_comes_from(tmp_path):
    file = tmp_path / "trace"
    file.write_text("one")
    warm = replace(PLAY, warm_up=Case.of(generate, file=(file,)))
    assert set(digests._modules_of(PLAY)) < set(digests._modules_of(warm))
    assert "justitia.sim.workloads.tables" in digests._all_modules(digests._modules_of(warm))
    assert digests._files_of(warm) == [file]
    assert source_digest(warm) != source_digest(PLAY)


def test_a_digest_covers_classes_of_arguments_and_what_they_hold(tmp_path):
    file = tmp_path / "trace"
    file.write_text("one")
    job = Measurement.of(number, value=({"rules": LearningRules(), "files": [file]},))
    assert "justitia.core.learning" in digests._modules_of(job)
    assert digests._files_of(job) == [file]


#: Another value for each field of a play; a new field must be added here, and must count.
_OTHERS = {
    "case": Case.of(small_scenario, seed=2),
    "policy": "fcfs",
    "settings": PlaySettings(estimator="mean"),
    "warm_up": Case.of(small_scenario, seed=2),
}


@pytest.mark.parametrize("name", [each.name for each in fields(Play)])
def test_plays_that_differ_in_any_field_share_no_entry(name):
    other = replace(PLAY, **{name: _OTHERS[name]})
    assert other.name != PLAY.name
    assert entry_name(other) != entry_name(PLAY)


@pytest.mark.parametrize("default", [None, 0])
def test_a_field_that_a_play_gets_later_is_part_of_its_name(default):
    later = make_dataclass(
        "Later", [("new", "int | None", default)], bases=(Play,), frozen=True, slots=True
    )
    names = {later(PLAY.case, PLAY.policy, new=new).name for new in (1, 2, default)}
    assert len(names) == 3
