"""Notes of an unfinished training: used for equal inputs alone, and harmless whatever they hold."""

import json
import math
from dataclasses import replace

import pytest

from justitia.local.unfinished import FILE_NAME, Unfinished
from justitia.predictor.samples import Sample
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import Judged, Trained
from justitia.testing.models import two_level_model

SETTINGS = TrainingSettings()
SAMPLES = {
    name: [Sample(application=name, prompt=f"p{i}", cost_kvtt=i, run_id=f"r{i}") for i in range(9)]
    for name in ("chat", "team/other")
}


def trained(application="chat", plain_kvtt=100):
    return Trained(
        model=two_level_model(application, plain_kvtt=plain_kvtt, word_kvtt=1000),
        held_out=(Judged(run_id="r1", cost_kvtt=1.0, predicted_kvtt=2.5),),
    )


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "new" / "models"


def test_what_was_saved_is_recalled_with_its_evidence(folder):
    Unfinished(folder, SAMPLES, SETTINGS).save(trained("team/other"))
    found = Unfinished(folder, SAMPLES, SETTINGS)
    recalled = found.recall("team/other")
    assert recalled.held_out == trained("team/other").held_out
    assert recalled.model.version == trained("team/other").model.version
    assert found.recall("chat") is None


@pytest.mark.parametrize(
    ("changed", "settings"),
    [
        ({"cost_kvtt": 77}, {}),
        ({"prompt": "another"}, {}),
        ({"run_id": "another"}, {}),
        ({}, {"seed": 1}),
        ({}, {"validation_fraction": 0.3}),
    ],
)
def test_other_inputs_are_trained_again(folder, changed, settings):
    Unfinished(folder, SAMPLES, SETTINGS).save(trained())
    first, *others = SAMPLES["chat"]
    samples = {"chat": [replace(first, **changed), *others]}
    assert Unfinished(folder, samples, replace(SETTINGS, **settings)).recall("chat") is None
    assert Unfinished(folder, SAMPLES, SETTINGS).recall("chat") is not None


def test_an_ended_training_leaves_models_and_no_notes(folder):
    unfinished = Unfinished(folder, SAMPLES, SETTINGS)
    path = unfinished.save(trained())
    unfinished.end()
    assert list(folder.iterdir()) == [path]
    assert Unfinished(folder, SAMPLES, SETTINGS).recall("chat") is None


def test_two_trainings_in_one_folder_leave_whole_models_and_harm_no_notes(folder):
    one, other = (Unfinished(folder, SAMPLES, SETTINGS) for _ in range(2))
    one.save(trained())
    other.save(trained("team/other"))
    other.save(trained())
    both = Unfinished(folder, SAMPLES, SETTINGS)
    assert both.recall("chat") is not None
    assert both.recall("team/other") is not None
    one.end()
    other.save(trained(plain_kvtt=200))
    other.end()
    assert {path.name for path in folder.iterdir()} == {
        "chat.safetensors",
        "team%2Fother.safetensors",
    }


def test_a_model_that_was_damaged_or_replaced_is_trained_again(folder):
    path = Unfinished(folder, SAMPLES, SETTINGS).save(trained())
    whole = path.read_bytes()
    for content in (whole[:-1], b"", whole + b"x", b"\x80\x04."):
        path.write_bytes(content)
        assert Unfinished(folder, SAMPLES, SETTINGS).recall("chat") is None
    other = Unfinished(folder.parent, SAMPLES, SETTINGS).save(trained(plain_kvtt=200))
    other.rename(path)
    unfinished = Unfinished(folder, SAMPLES, SETTINGS)
    assert unfinished.recall("chat") is None
    assert unfinished.save(trained()) == path  # and is written anew
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "line", ["", "{", "[" * 100_000, "null", '"chat"', '{"application": ["chat"]}', "{}", "\x00"]
)
def test_lines_that_are_no_notes_hide_no_note(folder, line):
    Unfinished(folder, SAMPLES, SETTINGS).save(trained())
    written = (folder / FILE_NAME).read_text()
    (folder / FILE_NAME).write_text(f"{line}\n{written}{line}")
    assert Unfinished(folder, SAMPLES, SETTINGS).recall("chat") is not None


def test_evidence_that_is_none_is_not_taken_over(folder):
    Unfinished(folder, SAMPLES, SETTINGS).save(trained())
    written = json.loads((folder / FILE_NAME).read_text())
    for held_out in (3, [[]], [{"run_id": "r"}], [{"run_id": "r", "cost_kvtt": "much"}], None):
        (folder / FILE_NAME).write_text(json.dumps(written | {"held_out": held_out}))
        assert Unfinished(folder, SAMPLES, SETTINGS).recall("chat") is None


@pytest.mark.parametrize("field", ["cost_kvtt", "predicted_kvtt"])
@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 0, -1, 1e-9, 1e30, 10**25, 10**400, "nan"]
)
def test_evidence_that_the_service_refuses_costs_a_training_and_nothing_else(folder, field, value):
    Unfinished(folder, SAMPLES, SETTINGS).save(trained())
    assert set_held_out(folder, {field: 7}).recall("chat") is not None
    assert set_held_out(folder, {field: value}).recall("chat") is None


@pytest.mark.parametrize("changes", [({"run_id": "\ud800"},), ({"run_id": "r9"},), ({}, {})])
def test_evidence_on_other_runs_than_those_given_is_not_taken_over(folder, changes):
    Unfinished(folder, SAMPLES, SETTINGS).save(trained())
    assert set_held_out(folder, {}).recall("chat") is not None
    assert set_held_out(folder, *changes).recall("chat") is None


def set_held_out(folder, *changes):
    """Judge a run for each change in the folder's note."""
    note = json.loads((folder / FILE_NAME).read_text())
    (run, *_) = note["held_out"]
    line = json.dumps(note | {"held_out": [run | each for each in changes]})
    (folder / FILE_NAME).write_text(line)
    return Unfinished(folder, SAMPLES, SETTINGS)


def test_notes_name_no_prompt(folder):
    prompt = "a secret that nobody else may read"
    samples = {"chat": [Sample(application="chat", prompt=prompt, cost_kvtt=5)]}
    Unfinished(folder, samples, SETTINGS).save(trained())
    assert "secret" not in (folder / FILE_NAME).read_text()
