"""`justitia up` trains as PredictorProfiles say, each of their fields heeded or named."""

import asyncio
import re
import sys
from datetime import UTC, datetime, timedelta

import pytest

from justitia.api.v1 import admin_pb2
from justitia.local import trainer
from justitia.local.declare import unhonoured
from justitia.local.errors import LocalModeError
from justitia.local.predictors import settings_of
from justitia.local.profiles import recordings_path
from justitia.local.trainer import Child, Trainer, TrainingFailedError, trainees
from justitia.resources.profile_status import JobTrigger
from justitia.resources.reading import read_resource
from justitia.testing.profile_fields import FIELD_CASES
from justitia_operator.facts import ModelFacts
from justitia_operator.program import Slot
from justitia_operator.scheduler import AwayError, View, read_declared
from justitia_operator.training import Due

pytestmark = pytest.mark.looptime
NOW = datetime(2026, 11, 30, 11, 59, 30, tzinfo=UTC)
SLOT = Slot("default", "chat")
MODEL = ModelFacts(version="v1", published_at="2026-11-30T09:00:00Z", samples=50, relative_error=1)
#: What the service says of it, judged on enough runs.
OF_MODEL = {"model_version": "v1", "model_relative_error": 0.5, "model_judged_runs": 20}


def manifests(privacy="Text", applications=("chat",), **spec):
    predictor = {"profileRef": {"name": "default"}, "privacy": privacy}
    listed = (
        *(("LLMApplication", name, {"predictor": predictor}) for name in applications),
        ("PredictorProfile", "default", spec),
    )
    return [
        read_resource(
            {
                "apiVersion": "justitia.dev/v1alpha1",
                "kind": kind,
                "metadata": {"name": name},
                "spec": spec,
            }
        )
        for kind, name, spec in listed
    ]


class Service:
    """Holds one application with the figures that a test sets."""

    def __init__(self):
        self.model = None
        self.figures = {"samples": 50}
        self.is_away = False
        self.others = ()

    async def load(self):
        if self.is_away:
            raise AwayError("nobody answers")
        status = admin_pb2.ApplicationStatus(**self.figures)
        held = {
            SLOT: read_declared(admin_pb2.Application(name="chat", pool="default", status=status))
        }
        held |= {Slot("default", other): held[SLOT] for other in self.others}
        return View(held, {}, {} if self.model is None else {SLOT: self.model})


class Bench:
    def __init__(self, listed, recordings=None):
        self.service = Service()
        self.told = []
        self.begun_s = []
        self.trained = []
        self.failure = None
        self.seconds = 1.0
        self.now = NOW
        self.trainer = Trainer(
            trainees(listed, recordings=recordings),
            self.service,
            self.train,
            tell=self.told.append,
            now=lambda: self.now,
        )

    async def look(self):
        """Look, and wait for all that begins to train."""
        async with asyncio.TaskGroup() as trainings:
            await self.trainer.look(trainings)

    async def train(self, trainee):
        self.trained.append(trainee.slot.name)
        self.begun_s.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        if self.failure and trainee.slot.name == "chat":
            raise TrainingFailedError(self.failure)
        return f"published {trainee.slot.name}"


@pytest.fixture
def open_bench():
    def open_bench(recordings=None, privacy="Text", others=(), **spec):
        bench = Bench(manifests(privacy, ("chat", *others), **spec), recordings)
        bench.service.others = others
        return bench

    return open_bench


async def test_enough_samples_train_the_first_model_once(open_bench):
    bench = open_bench(training={"minSamples": 51})
    await bench.look()
    assert bench.told == []
    bench.service.figures["samples"] = 51
    await bench.look()
    assert bench.told == [
        "training chat: there is no model yet and at least 51 samples",
        "published chat",
    ]
    await bench.look()  # its model was not activated, and nothing is new
    assert len(bench.begun_s) == 1


async def test_a_running_trainer_looks_every_ten_seconds_and_stays_when_the_service_is_away(
    open_bench,
):
    bench = open_bench()
    bench.service.is_away = True
    async with asyncio.TaskGroup() as group:
        task = group.create_task(bench.trainer.run())
        await asyncio.sleep(25)
        bench.service.is_away = False
        await asyncio.sleep(10)
        task.cancel()
    assert bench.begun_s == [30]


@pytest.mark.parametrize("trigger", ["schedule", "newSamples", "relativeErrorAbove"])
async def test_what_triggers_a_job_triggers_a_training_here(open_bench, trigger):
    retrain = {"newSamples": 40, "relativeErrorAbove": "0.5"}
    bench = open_bench(
        training={"schedule": "0 12 * * *"}
        if trigger == "schedule"
        else {"retrainWhen": {trigger: retrain[trigger]}}
    )
    bench.service.model = MODEL
    bench.service.figures |= OF_MODEL | {"samples_since_model": 39}
    await bench.look()
    assert bench.told == []
    bench.now += timedelta(minutes=1)
    bench.service.figures |= {"samples_since_model": 40, "model_relative_error": 0.51}
    await bench.look()
    assert len(bench.begun_s) == 1


async def test_withheld_prompts_train_nothing(open_bench):
    bench = open_bench(privacy="None")
    await bench.look()
    assert bench.begun_s == []


async def test_a_failed_training_is_repeated_as_often_as_the_profile_says(open_bench):
    bench = open_bench(job={"backoffLimit": 2})
    bench.failure = "no usable samples"
    await bench.look()
    assert bench.begun_s == [0, 11, 32]
    assert bench.told[-1] == "the training of chat failed: no usable samples"
    await bench.look()
    assert len(bench.begun_s) == 3


async def test_the_same_reason_never_starts_another_training(open_bench, monkeypatch):
    dues = [Due(trigger=JobTrigger.FIRST, name=name, why="") for name in ("a", "a", "b", "a")]
    monkeypatch.setattr(trainer, "decide_training", lambda _: dues.pop(0))
    bench = open_bench()
    while dues:
        await bench.look()
    assert len(bench.begun_s) == 2


async def test_a_training_that_takes_too_long_is_ended(open_bench):
    bench = open_bench(job={"activeDeadline": "15s", "backoffLimit": 2})
    bench.seconds = 3600
    await bench.look()
    assert asyncio.get_running_loop().time() == 15
    assert bench.told[-1] == (
        "the training of chat failed: it took longer than job.activeDeadline, 15 s"
    )


async def test_a_training_that_waits_to_be_repeated_holds_up_no_other(open_bench):
    bench = open_bench(others=("mail",), job={"backoffLimit": 1})
    bench.failure = "no usable samples"
    await bench.look()
    assert bench.trained == ["chat", "mail", "chat"]
    assert bench.begun_s == [0, 1, 11]


async def test_one_is_trained_at_a_time_and_its_limit_leaves_out_the_wait(open_bench):
    bench = open_bench(others=("mail", "search"), job={"activeDeadline": "15s", "backoffLimit": 0})
    bench.seconds = 10
    await bench.look()
    assert bench.begun_s == [0, 10, 20]
    assert sum(line.startswith("published ") for line in bench.told) == 3


async def test_while_a_training_goes_on_its_application_begins_no_other(open_bench):
    bench = open_bench(training={"schedule": "* * * * *"})
    bench.service.model = MODEL
    bench.service.figures |= OF_MODEL
    async with asyncio.TaskGroup() as trainings:
        for _ in range(3):
            bench.now += timedelta(minutes=2)
            await bench.trainer.look(trainings)
            await asyncio.sleep(0)
        assert bench.trained == ["chat"]
    bench.now += timedelta(minutes=2)
    await bench.look()
    assert bench.trained == ["chat", "chat"]


async def observe(spec, folder):
    """All that local mode makes of a profile."""
    listed = manifests(**spec)
    profile = listed[1].spec
    seen = [settings_of(profile)]
    for given in (None, folder):
        try:
            seen.append(recordings_path(profile.samples, given))
        except LocalModeError as error:
            seen.append(str(error))
    for model, failure, seconds in ((None, "fails", 1), (MODEL, "", 1), (None, "", 10**6)):
        bench = Bench(listed, recordings=folder)
        bench.failure, bench.seconds, bench.service.model = failure, seconds, model
        if model is not None:
            bench.now += timedelta(minutes=90)
            bench.service.figures |= OF_MODEL | {"samples_since_model": 40}
        await bench.look()
        seen += [bench.told, [at - bench.begun_s[0] for at in bench.begun_s]]
    return seen


@pytest.mark.parametrize("case", FIELD_CASES, ids=lambda case: case.path)
async def test_every_field_has_an_effect_here_or_is_named(case, tmp_path):
    told = unhonoured(manifests(**case.one), is_training=True)
    field = ".".join(re.split(r"[.\[{]", case.path)[:2])
    is_named = f" {field}" in told
    has_effect = await observe(case.one, tmp_path) != await observe(case.other, tmp_path)
    assert is_named or has_effect
    # The file behind a ConfigMap's or a volume's name is found once --recordings stands in for it.
    assert not (is_named and has_effect) or field.startswith("samples."), told


def test_the_command_of_a_child_names_its_profile_and_service(tmp_path):
    child = Child(
        manifests=tmp_path / "all.yaml", recordings=tmp_path, address="h:1", log_dir=tmp_path
    )
    recorded, *_ = trainees(manifests(), recordings=None)
    mounted, *_ = trainees(manifests(samples={"configMap": {"name": "r"}}), recordings=tmp_path)
    common = [
        f"--profile={tmp_path}/all.yaml",
        "--application=chat",
        "--pool=default",
        "--address=h:1",
    ]
    assert child.command(recorded) == [
        *(sys.executable, "-m", "justitia", "train", "--publish"),
        *common,
    ]
    assert child.command(mounted) == [*child.command(recorded), f"--recordings={tmp_path}"]


def test_without_its_file_a_profile_that_reads_one_trains_nothing_and_says_so():
    listed = manifests(samples={"configMap": {"name": "runs"}})
    assert trainees(listed, recordings=None) == []
    assert "samples.configMap, --recordings stands in for it (default)" in unhonoured(
        listed, is_training=True
    )
