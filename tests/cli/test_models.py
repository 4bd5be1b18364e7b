"""``justitia models`` and ``train --publish`` against a real service."""

import json

import pytest

from justitia.api.v1 import admin_pb2
from justitia.cli import kubectl
from justitia.client import connect
from justitia.local.service import SchedulerService
from justitia.predictor import artefact
from justitia.testing.models import two_level_model

OLD = two_level_model("chat", plain_kvtt=100, word_kvtt=1000)
NEW = two_level_model("chat", plain_kvtt=150, word_kvtt=1500)


@pytest.fixture
def kubectl_justitia(in_process):
    return in_process("kubectl-justitia", kubectl.main)


def publish(address, *models):
    with connect(address) as client:
        client.apply_application(admin_pb2.Application(name="chat"))
        for model in models:
            client.publish_model("chat", artefact.to_bytes(model))


async def test_models_are_listed_and_an_earlier_one_comes_back(
    justitia, kubectl_justitia, monkeypatch, tmp_path
):
    async with SchedulerService(log_path=tmp_path / "log") as service:
        monkeypatch.setenv("JUSTITIA_SCHEDULER_ADDRESS", service.address)
        assert "no models" in justitia("models", "list")[1]
        publish(service.address, OLD, NEW)
        status, shown, error = justitia("models", "list", "-a", "chat")
        assert (status, error) == (0, "")
        line = next(line for line in shown.splitlines() if NEW.version[:12] in line)
        assert "active" in line
        assert justitia("models", "activate", "chat", OLD.version[:8])[1] == (
            f"chat: model {OLD.version} is active\n"
        )
        status, _, error = justitia("models", "activate", "chat", "ffffffff")
        assert status == 1
        assert OLD.version in error
        to = ("--address", service.address)
        shown = kubectl_justitia("models", "list", *to)[1]
        assert "activated by a call" in shown
        assert kubectl_justitia("models", "deactivate", "chat", *to)[1] == (
            f"chat: model {OLD.version} is not active any more\n"
        )
        assert justitia("models", "deactivate", "chat")[1] == "chat: no model was active\n"
        assert kubectl_justitia("models", "activate", "chat", NEW.version, *to)[0] == 0
    log = (tmp_path / "log").read_text()
    assert log.count("model activated") == 2
    assert "model deactivated" in log


@pytest.fixture
def recordings(tmp_path):
    """Runs whose cost has nothing to do with their prompt."""
    path = tmp_path / "runs.jsonl"
    inference = {"prompt_tokens": 100, "cached_tokens": 0, "output_tokens": 20, "stage": "answer"}
    with path.open("w") as stream:
        for number in range(60):
            run = {
                "application": "chat",
                "prompt": f"word{number % 7} {number}",
                "inferences": [inference] * (1 + number % 5),
            }
            stream.write(json.dumps(run) + "\n")
    return path


async def test_train_says_what_became_of_the_model(justitia, monkeypatch, tmp_path, recordings):
    async with SchedulerService(log_path=tmp_path / "log") as service:
        monkeypatch.setenv("JUSTITIA_SCHEDULER_ADDRESS", service.address)
        publish(service.address)
        train = ("train", "--recordings", recordings, "--publish")
        status, shown, error = justitia(*train)
        assert (status, error) == (0, ""), error
        assert "published chat " in shown
        assert "the mean of finished runs" in shown
        status, shown, _ = justitia(*train, "--force")
        assert status == 0
        assert ": active: " in shown


def test_force_alone_is_refused(justitia):
    status, _, error = justitia("train", "--force")
    assert status == 2
    assert "--force" in error


def test_a_training_that_is_interrupted_leaves_nothing(justitia, monkeypatch, tmp_path, recordings):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("justitia.predictor.training.learn", interrupted)
    monkeypatch.setattr("justitia.predictor.training.best_num_steps", interrupted)
    output = tmp_path / "models"
    status, _, error = justitia("train", "--recordings", recordings, "-o", output)
    assert (status, output.exists()) == (130, False)
    assert "interrupted" in error
