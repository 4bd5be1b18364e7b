"""``justitia train``: by a PredictorProfile, interrupted and gone on with, beside others."""

import contextlib
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from justitia.api.v1 import admin_pb2
from justitia.cli import kubectl
from justitia.client import connect
from justitia.local.service import SchedulerService
from justitia.local.unfinished import FILE_NAME
from justitia.predictor import artefact, training
from justitia.resources.profile_status import JobTrigger
from justitia_operator.gather import read_application, read_profile
from justitia_operator.manifests import TrainerOptions, build_job
from justitia_operator.training import Due
from justitia_scheduler.sqlite_store import SqliteStore
from justitia_scheduler.store import SampleRow, Transaction

CRD = Path(__file__).parents[2] / "crds" / "predictorprofiles.yaml"
PROFILE = """
apiVersion: justitia.dev/v1alpha1
kind: PredictorProfile
metadata: {{name: {name}}}
spec: {spec}
---
"""
APPLICATION = """
apiVersion: justitia.dev/v1alpha1
kind: LLMApplication
metadata: {{name: {name}}}
spec: {{predictor: {{profileRef: {{name: {profile}}}}}}}
---
"""


def profile(name="default", **spec):
    return PROFILE.format(name=name, spec=json.dumps(spec))


def application(name, profile):
    return APPLICATION.format(name=name, profile=profile)


@pytest.fixture
def manifest(tmp_path):
    def manifest(*documents):
        path = tmp_path / "profile.yaml"
        path.write_text("".join(documents))
        return path

    return manifest


@pytest.fixture
def recordings(tmp_path):
    """Thirty runs of each of three applications."""
    path = tmp_path / "recorded" / "runs.jsonl"
    path.parent.mkdir()
    with path.open("w") as stream:
        for name in ("one", "two", "three"):
            for number in range(30):
                tokens = {"prompt_tokens": 9 + number, "cached_tokens": 0}
                run = {
                    "application": name,
                    "prompt": f"{name} count to {number} " * (1 + number % 7),
                    "inferences": [tokens | {"output_tokens": 5 + number % 7}],
                }
                stream.write(json.dumps(run) + "\n")
    return path


@pytest.fixture
def models(tmp_path):
    def models(folder="models"):
        found = sorted((tmp_path / folder).glob("*.safetensors"))
        return {path.stem: artefact.load(path).version for path in found}

    return models


@pytest.fixture
def interrupted_at(monkeypatch):
    """Make Ctrl-C come while an application is trained."""

    @contextlib.contextmanager
    def interrupted_at(name):
        learn = training.learn

        def interrupted(samples, *args):
            if samples[0].application == name:
                raise KeyboardInterrupt
            return learn(samples, *args)

        with monkeypatch.context() as patch:
            patch.setattr(training, "learn", interrupted)
            yield

    return interrupted_at


# -- by a profile ----------------------------------------------------------------------------------


def test_a_profile_trains_as_the_same_flags_do_and_flags_win(
    justitia, manifest, recordings, models, tmp_path
):
    given = {
        "features": {"maxTerms": 50, "selectedTerms": 20},
        "training": {"maxSamples": 25, "validationFraction": 0.4, "seed": 7},
    }
    common = ("train", "--recordings", recordings, "-a", "one")
    path = manifest(profile(**given))
    flags = (
        *("--max-terms", 50, "--selected-terms", 20, "--max-samples", 25),
        *("--validation-fraction", 0.4, "--seed", 7),
    )
    assert justitia(*common, "--profile", path, "-o", tmp_path / "by-profile")[0] == 0
    assert justitia(*common, *flags, "-o", tmp_path / "by-flags")[0] == 0
    assert models("by-profile") == models("by-flags") != {}
    justitia(*common, "--profile", path, "--seed", 8, "-o", tmp_path / "by-both")
    justitia(*common, *flags, "--seed", 8, "-o", tmp_path / "by-other-flags")
    assert models("by-both") == models("by-other-flags") != models("by-flags")
    declined = manifest(profile(training={"minSamples": 31}))
    shown = justitia(*common, "--profile", declined)[1]
    assert "at least 31 are needed" in " ".join(shown.replace("│", " ").split())


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"training": {"minSamples": 1}}, "spec.training.minSamples"),
        ({"training": {"epochs": 3}}, "spec.training.epochs"),
        ({"model": {"kind": "Tree"}}, "spec.model.kind"),
        ({"features": {"maxTerms": 5, "selectedTerms": 9}}, "selectedTerms must not exceed"),
        ({"job": {"activeDeadline": "soon"}}, "must be a duration from 10s to 168h"),
        ({"samples": {}}, "exactly one of recorded, configMap and persistentVolumeClaim"),
    ],
)
def test_a_wrong_field_of_a_profile_is_one_sentence_with_its_path(justitia, manifest, spec, said):
    path = manifest(profile(**spec))
    status, _, error = justitia("train", "--profile", path)
    assert status == 1
    assert error.startswith(f"error: {path}: ")
    assert said in error
    assert error.count("\n") == 1


def test_of_several_profiles_the_applications_counts(justitia, manifest, recordings):
    path = manifest(
        profile("few", training={"minSamples": 10}),
        profile("many", training={"minSamples": 99}),
        application("one", "few"),
        application("two", "many"),
    )
    common = ("train", "--profile", path, "--recordings", recordings)
    assert "trained one (1 of 1)" in justitia(*common, "-a", "one")[1]
    assert "trained" not in justitia(*common, "-a", "team-a/two")[1]
    status, _, error = justitia(*common)
    assert status == 1
    assert "there are 2 PredictorProfiles (few, many)" in error
    alone = manifest(application("one", "few"))
    assert "there is no PredictorProfile" in justitia("train", "--profile", alone)[2]


def test_a_folder_stands_in_for_a_config_map_or_a_volume(justitia, manifest, recordings):
    sources = (
        {"configMap": {"name": "runs", "key": "runs.jsonl"}},
        {"persistentVolumeClaim": {"claimName": "data", "path": "recorded/runs.jsonl"}},
    )
    for source, folder in zip(sources, (recordings.parent, recordings.parents[1]), strict=True):
        path = manifest(profile(samples=source))
        common = ("train", "--profile", path, "-a", "one")
        assert "trained one" in justitia(*common, "--recordings", folder)[1]
        assert "trained one" in justitia(*common, "--recordings", recordings)[1]
        status, _, error = justitia(*common)
        assert status == 1
        assert f"samples.{next(iter(source))} is in a cluster" in error


def test_what_is_said_of_the_pod_alone_has_no_effect_and_is_named(justitia, manifest, recordings):
    path = manifest(profile(job={"image": "trainer", "backoffLimit": 1}))
    common = ("train", "--profile", path, "--recordings", recordings, "-a", "one")
    assert justitia(*common)[2] == (
        "warning: without a cluster these have no effect: job.image (default)\n"
    )


def test_a_profile_trains_as_a_cluster_prints_it(justitia, manifest, recordings):
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    stored = yaml.safe_load(profile().partition("---")[0])
    stored["spec"] = with_defaults(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    stored["metadata"] |= {"uid": "u", "generation": 3, "managedFields": [{"manager": "kubectl"}]}
    stored["status"] = {"observedGeneration": 3, "conditions": []}
    path = manifest(yaml.safe_dump(stored))
    common = ("train", "--profile", path, "--recordings", recordings, "-a", "one")
    status, shown, warned = justitia(*common)
    assert (status, warned) == (0, "")
    assert "trained one" in shown
    assert stored["spec"]["job"]["imagePullPolicy"] == "IfNotPresent"


def with_defaults(schema):
    """What the API server makes of an object that is not there, or of an empty one."""
    if "default" in schema and schema["default"] != {}:
        return schema["default"]
    fields = schema.get("properties", {}).items()
    return {name: with_defaults(field) for name, field in fields if "default" in field}


def test_kubectl_trains_by_a_profile_too(in_process, monkeypatch):
    given = {}
    monkeypatch.setattr("justitia.cli.train.train", lambda **options: given.update(options))
    kubectl_justitia = in_process("kubectl-justitia", kubectl.main)
    common = ("train", "one", "--profile", "p.yaml")
    assert kubectl_justitia(*common, "--address", "127.0.0.1:1")[0] == 0
    assert given["profile"] == Path("p.yaml")
    assert kubectl_justitia(*common, "--job")[0] == 2


def test_recordings_without_the_application_are_named(justitia, recordings):
    status, _, error = justitia("train", "--recordings", recordings, "-a", "four")
    assert (status, error) == (1, f"error: {recordings}: there is no run of application four\n")


# -- without prompts -------------------------------------------------------------------------------


def test_runs_without_a_prompt_are_left_out_and_named(justitia, recordings, tmp_path):
    lines = recordings.read_text().splitlines()
    untold = [json.dumps(json.loads(line) | {"prompt": ""}) for line in lines[:10]]
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("\n".join([*untold, *lines]))
    common = ("train", "-a", "one", "-o")
    assert justitia(*common, tmp_path / "plain", "--recordings", recordings)[2] == ""
    status, shown, warned = justitia(*common, tmp_path / "mixed", "--recordings", mixed)
    assert status == 0
    assert "trained one (1 of 1)" in shown
    assert warned == "warning: one: of 40 samples 10 are left out: without a prompt\n"
    models = [artefact.load(tmp_path / name / "one.safetensors") for name in ("plain", "mixed")]
    assert models[0].metrics == replace(models[1].metrics, num_dropped=0)
    for name, array in models[0].arrays().items():
        assert array.tobytes() == models[1].arrays()[name].tobytes()


async def test_recorded_runs_without_a_prompt_train_nothing(justitia, monkeypatch, tmp_path):
    store = SqliteStore(tmp_path / "journal.db")
    store.load()
    rows = [
        SampleRow(
            pool="default",
            application="one",
            run_id=f"r{number}",
            prompt_text="",
            cost_kvtt=1000 + number,
            num_inferences=1,
            finished_at_s=time.time(),
        )
        for number in range(30)
    ]
    store.commit(Transaction(samples=rows))
    store.close()
    logs = tmp_path / "log"
    async with SchedulerService(log_path=logs, journal_path=tmp_path / "journal.db") as service:
        monkeypatch.setenv("JUSTITIA_SCHEDULER_ADDRESS", service.address)
        with connect(service.address) as client:
            client.apply_application(admin_pb2.Application(name="one"))
            status, _, error = justitia("train", "--publish")
            assert not client.list_models()
            (declared,) = client.list_applications()
    assert status == 1
    assert (declared.status.samples, declared.status.samples_since_model) == (0, 0)
    assert error == (
        "warning: one: of 30 samples 30 are left out: without a prompt\n"
        "error: nothing to publish: one: application 'one' has 0 usable samples of 30 (30 without"
        " a prompt, 0 with an unusable cost), at least 20 are needed\n"
    )


# -- interrupted -----------------------------------------------------------------------------------


def test_an_interrupted_training_goes_on_with_what_it_has(
    justitia, recordings, models, interrupted_at
):
    folder = recordings.parents[1]
    justitia("train", "--recordings", recordings, "-o", folder / "undisturbed")
    command = ("train", "--recordings", recordings, "-o", folder / "models")
    with interrupted_at("three"):
        status, shown, _ = justitia(*command)
    assert status == 130
    assert f"models in {folder}/models: 2 of 3; the same command goes on from there" in shown
    assert models().keys() == {"one", "two"}
    shown = justitia(*command)[1]
    told = [line.partition(" (")[0] for line in shown.splitlines() if " of 3)" in line]
    assert told == ["kept one", "kept two", "trained three"]
    assert shown.count("wrote") == 1
    assert models() == models("undisturbed")
    assert not (folder / "models" / FILE_NAME).exists()


def test_a_training_that_has_ended_is_not_taken_for_an_interrupted_one(
    justitia, recordings, tmp_path
):
    command = ("train", "--recordings", recordings, "-a", "one", "-o", tmp_path / "models")
    for _ in range(2):
        assert "trained one (1 of 1)" in justitia(*command)[1]


# -- published -------------------------------------------------------------------------------------


async def test_a_model_that_is_refused_keeps_no_other_from_being_published(
    justitia, monkeypatch, recordings, tmp_path
):
    async with SchedulerService(log_path=tmp_path / "log") as service:
        monkeypatch.setenv("JUSTITIA_SCHEDULER_ADDRESS", service.address)
        with connect(service.address) as client:
            for name in ("one", "three"):
                client.apply_application(admin_pb2.Application(name=name))
        status, shown, error = justitia("train", "--recordings", recordings, "--publish")
    assert status == 1
    published = [line.split()[1] for line in shown.splitlines() if line.startswith("published")]
    assert published == ["one", "three"]
    assert error.startswith("error: not published: two: ")
    assert error.count("\n") == 1


async def test_where_the_service_refuses_a_model_the_others_are_not_trained_again(
    justitia, monkeypatch, recordings, tmp_path
):
    command = ("train", "--recordings", recordings, "-o", tmp_path / "models", "--publish")
    async with SchedulerService(log_path=tmp_path / "log") as service:
        monkeypatch.setenv("JUSTITIA_SCHEDULER_ADDRESS", service.address)
        with connect(service.address) as client:
            for name in ("one", "three"):
                client.apply_application(admin_pb2.Application(name=name))
            assert justitia(*command)[0] == 1
            client.apply_application(admin_pb2.Application(name="two"))
        status, shown, _ = justitia(*command)
    assert status == 0
    assert "trained" not in shown
    assert "published two" in shown
    assert not (tmp_path / "models" / FILE_NAME).exists()


async def test_the_command_of_a_job_trains_as_the_profile_does_here(
    justitia, manifest, recordings, models, tmp_path
):
    spec = {
        "features": {"maxTerms": 50, "selectedTerms": 20},
        "training": {"maxSamples": 25, "validationFraction": 0.4, "seed": 7},
        "samples": {"persistentVolumeClaim": {"claimName": "data", "path": "runs.jsonl"}},
    }
    documents = [yaml.safe_load(part) for part in profile(**spec).split("---")[:1]]
    documents.append(yaml.safe_load(application("one", "default").partition("---")[0]))
    for document in documents:
        document["metadata"] |= {"uid": document["kind"], "namespace": "default"}
    async with SchedulerService(log_path=tmp_path / "log") as service:
        options = TrainerOptions(image="trainer", scheduler_address=service.address)
        due = Due(trigger=JobTrigger.FIRST, name="one-1-1", why="first")
        read = read_application(documents[1]), read_profile(documents[0])
        pod = build_job(due, *read, options)["spec"]["template"]["spec"]
        arguments = [
            argument.replace("/samples/", f"{recordings.parent}/")
            for argument in pod["containers"][0]["args"]
        ]
        with connect(service.address) as client:
            client.apply_application(admin_pb2.Application(name="one", pool="default/default"))
            assert justitia("train", *arguments)[0] == 0
            (model,) = client.list_models(pool="default/default")
    path = manifest(profile(**spec))
    common = ("--recordings", recordings, "-a", "one", "-o", tmp_path / "models")
    justitia("train", "--profile", path, *common)
    assert models() == {"one": model.version}
    assert model.is_active
