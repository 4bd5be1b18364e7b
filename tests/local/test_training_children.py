"""`justitia up` trains by real child processes against a real service."""

import asyncio
import errno
import json
import os
import sys

import pytest
import yaml

from justitia.client import connect
from justitia.local.declare import declare
from justitia.local.manifests import read_manifests
from justitia.local.service import SchedulerService
from justitia.local.trainer import Child, TrainingFailedError, train_when_due, trainees


@pytest.fixture
def manifests(tmp_path):
    """An application whose predictor is trained from a file in place of a ConfigMap."""
    samples = {"configMap": {"name": "runs"}}
    documents = (
        ("LLMApplication", "chat", {"predictor": {"profileRef": {"name": "default"}}}),
        ("PredictorProfile", "default", {"samples": samples, "job": {"backoffLimit": 0}}),
    )
    path = tmp_path / "all.yaml"
    path.write_text(
        yaml.safe_dump_all(
            {
                "apiVersion": "justitia.dev/v1alpha1",
                "kind": kind,
                "metadata": {"name": name},
                "spec": spec,
            }
            for kind, name, spec in documents
        )
    )
    return path


@pytest.fixture
def recorded(tmp_path):
    runs = [
        {
            "application": "chat",
            "prompt": f"count to {number} " * number,
            "inferences": [{"prompt_tokens": number, "cached_tokens": 0, "output_tokens": 5}],
        }
        for number in range(1, 31)
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, runs)))
    return tmp_path


async def test_what_is_due_is_trained_and_its_model_serves(
    manifests, recorded, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUSTITIA_TLS_CA", "/of/another/service.pem")
    told = asyncio.Queue()
    listed = trainees(read_manifests(manifests), recordings=recorded)
    async with SchedulerService(log_path=tmp_path / "log") as service:
        child = Child(
            manifests=manifests, recordings=recorded, address=service.address, log_dir=tmp_path
        )
        with connect(service.address) as client:
            declare(client, read_manifests(manifests))
            training = asyncio.create_task(train_when_due(listed, child, tell=told.put_nowait))
            assert await told.get() == "training chat: there is no model yet"
            assert (await told.get()).startswith("published chat ")
            training.cancel()
            (model,) = client.list_models()
    assert (model.is_active, model.samples) == (True, 30)


@pytest.fixture
def child_running(manifests, tmp_path, monkeypatch):
    """A child that runs some code in place of `justitia train`."""

    def child_running(code):
        monkeypatch.setattr(Child, "command", lambda *_: [sys.executable, "-c", code])
        (trainee,) = trainees(read_manifests(manifests), recordings=tmp_path)
        child = Child(manifests=manifests, recordings=None, address="h:1", log_dir=tmp_path)
        return child.train(trainee)

    return child_running


async def test_a_child_that_cannot_be_started_has_failed_and_ends_nothing_else(
    child_running, monkeypatch
):
    async def refuse(*_, **__):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    with pytest.raises(TrainingFailedError, match="it could not be run: Resource temporarily"):
        await child_running("")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; print('training'); sys.exit('error: too few')", r"^too few \(log: "),
        ("raise SystemExit(3)", r"^status 3 \(log: "),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", r"^status -9 \(log: "),
    ],
)
async def test_a_child_that_fails_says_why_in_its_own_words(child_running, code, said):
    with pytest.raises(TrainingFailedError, match=said):
        await child_running(code)


async def test_a_child_without_a_model_to_publish_is_no_failure(child_running):
    assert (await child_running("print('hello')")).startswith("trained chat (log: ")


async def test_a_training_that_is_ended_leaves_no_process(child_running, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    training = asyncio.create_task(child_running(f"open({str(fifo)!r}).read()"))
    writer = await asyncio.to_thread(fifo.open, "w")  # until the child reads
    training.cancel()
    with pytest.raises(asyncio.CancelledError):
        await training
    with pytest.raises(BrokenPipeError), writer:
        writer.write("x")
