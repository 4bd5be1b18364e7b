"""Training Jobs: restricted, bounded, owned (FK8); and events."""

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from justitia.resources.profile_status import JobTrigger
from justitia_operator.events import Event
from justitia_operator.facts import Kind
from justitia_operator.gather import read_application, read_job, read_profile
from justitia_operator.manifests import TrainerOptions, build_event, build_job
from justitia_operator.training import Due

DUE = Due(trigger=JobTrigger.FIRST, name="chat-12345678-abcdef01", why="there is no model yet")
OPTIONS = TrainerOptions(image="justitia/trainer:1", scheduler_address="scheduler:50051")


@pytest.fixture
def build(make):
    def build(options=OPTIONS, application_spec=None, **profile_spec):
        application = read_application(make.stored(make.application(**(application_spec or {}))))
        profile = read_profile(make.stored(make.profile(**profile_spec), uid="uid-profile"))
        assert profile.spec is not None, profile.problem
        return build_job(DUE, application, profile, options)

    return build


def pod(job):
    return job["spec"]["template"]["spec"]


def container(job):
    return pod(job)["containers"][0]


def test_the_job_is_ours_and_goes_with_its_profile(build):
    job = build()
    metadata = job["metadata"]
    assert metadata["name"] == DUE.name
    assert metadata["namespace"] == "team-a"
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "justitia-operator"
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "PredictorProfile",
        "uid-profile",
        True,
    )


def test_fk2_nothing_of_the_users_waits_for_a_job(build):
    job = build()
    assert job["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is False
    assert "finalizers" not in job["metadata"]


def test_fk8_the_job_is_bounded_in_time_and_tries_and_cleans_up(build):
    spec = build(job={"backoffLimit": 1, "activeDeadline": "90m", "ttl": "1h"})["spec"]
    assert spec["backoffLimit"] == 1
    assert spec["activeDeadlineSeconds"] == 5400
    assert spec["ttlSecondsAfterFinished"] == 3600
    assert pod(build())["restartPolicy"] == "Never"


def test_fk8_a_drained_node_counts_as_no_try(build):
    (rule,) = build()["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "Ignore"
    assert rule["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_fk8_the_pod_passes_the_restricted_pod_security_standard(build):
    job = build(
        options=TrainerOptions(image="i", scheduler_address="s:1", ca_pem="PEM", client_secret="c")
    )
    spec = pod(job)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container(job)["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    allowed = {"name", "emptyDir", "downwardAPI", "secret", "configMap", "persistentVolumeClaim"}
    assert all(volume.keys() <= allowed for volume in spec["volumes"])


def test_fk11_the_pod_is_neutral_to_its_surroundings(build):
    job = build()
    assert pod(job)["enableServiceLinks"] is False
    assert pod(job)["automountServiceAccountToken"] is False
    assert "runAsUser" not in pod(job)["securityContext"]
    assert container(job)["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"name": "tmp", "mountPath": "/tmp"} in container(job)["volumeMounts"]


def test_fk4_every_number_of_the_profile_reaches_the_trainer(build):
    job = build(
        training={
            "minSamples": 50,
            "maxSamples": 900,
            "validationFraction": 0.3,
            "seed": 2**53 - 1,
        },
        model={"kind": "Network", "hiddenLayers": [32, 16, 8]},
        features={"maxTerms": 512, "selectedTerms": 64},
    )
    arguments = set(container(job)["args"])
    assert arguments >= {
        "--publish",
        "--application=chat",
        "--pool=team-a/llama",
        "--address=scheduler:50051",
        "--min-samples=50",
        "--max-samples=900",
        "--validation-fraction=0.3",
        f"--seed={2**53 - 1}",
        "--kind=network",
        "--hidden-layers=32,16,8",
        "--max-terms=512",
        "--selected-terms=64",
    }


def test_fk4_the_trainer_knows_every_argument(build):
    from justitia.cli.main import app

    options = TrainerOptions(
        image="i", scheduler_address="127.0.0.1:1", ca_pem="PEM", client_secret="secret"
    )
    job = build(options=options, samples={"configMap": {"name": "runs"}})
    result = CliRunner().invoke(app, ["train", *container(job)["args"]])
    assert "No such option" not in result.output
    assert result.exit_code != 2, result.output


def test_an_application_beside_another_pool_goes_by_both_names(build):
    spec = {"poolRef": {"name": "llama", "namespace": "pools"}}
    arguments = container(build(application_spec=spec))["args"]
    assert "--application=team-a/chat" in arguments
    assert "--pool=pools/llama" in arguments


def test_what_the_user_says_of_the_pod_is_handed_on_as_written(build):
    job = build(
        job={
            "image": "example.com/trainer@sha256:0",
            "imagePullPolicy": "Always",
            "imagePullSecrets": [{"name": "pull"}],
            "resources": {
                "requests": {"cpu": "500m", "memory": "2Gi"},
                "limits": {"memory": "4Gi"},
                "claims": [{"name": "gpu"}],
            },
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "priorityClassName": "batch",
            "runtimeClassName": "nvidia",
        }
    )
    assert container(job)["image"] == "example.com/trainer@sha256:0"
    assert container(job)["imagePullPolicy"] == "Always"
    resources = container(job)["resources"]
    assert resources["claims"] == [{"name": "gpu"}]
    assert {name: float(amount) for name, amount in resources["requests"].items()} == {
        "cpu": 0.5,
        "memory": 2 * 2**30,
    }
    spec = pod(job)
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    assert spec["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert (spec["priorityClassName"], spec["runtimeClassName"]) == ("batch", "nvidia")


def test_fk12_the_services_certificate_reaches_the_pod_without_another_object(build):
    job = build(options=TrainerOptions(image="i", scheduler_address="s:1", ca_pem="-----PEM-----"))
    template = job["spec"]["template"]
    assert template["metadata"]["annotations"]["justitia.dev/scheduler-ca"] == "-----PEM-----"
    (volume,) = [volume for volume in pod(job)["volumes"] if "downwardAPI" in volume]
    (item,) = volume["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['justitia.dev/scheduler-ca']"
    assert "--tls-ca=/etc/justitia/tls/ca.crt" in container(job)["args"]


@pytest.mark.parametrize(
    ("samples", "argument", "source"),
    [
        ({"recorded": {}}, None, None),
        ({"configMap": {"name": "runs"}}, "--recordings=/samples/runs.jsonl", "configMap"),
        (
            {"persistentVolumeClaim": {"claimName": "data", "path": "a/b.jsonl.gz"}},
            "--recordings=/samples/a/b.jsonl.gz",
            "persistentVolumeClaim",
        ),
    ],
    ids=["recorded", "configMap", "persistentVolumeClaim"],
)
def test_samples_come_from_one_source(build, samples, argument, source):
    job = build(samples=samples)
    recordings = [each for each in container(job)["args"] if each.startswith("--recordings")]
    assert recordings == ([argument] if argument else [])
    sources = [volume for volume in pod(job)["volumes"] if volume["name"] == "samples"]
    assert [source in volume for volume in sources] == ([True] if source else [])


def test_the_operator_recognises_its_own_job(build):
    job = read_job(build() | {"status": {}})
    assert (job.application_uid, job.profile_uid) == ("uid-1", "uid-profile")
    assert job.record.application == "chat"
    assert job.record.trigger is JobTrigger.FIRST


def test_an_event_is_about_its_object(make):
    meta = read_application(make.stored(make.application())).meta
    event = Event(type="Warning", reason="Refused", message="x" * 3000)
    now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    body = build_event(event, Kind.APPLICATION, meta, name="chat.1", now=now)
    assert body["regarding"]["uid"] == "uid-1"
    assert body["regarding"]["kind"] == "LLMApplication"
    assert body["eventTime"] == "2026-11-30T12:00:00.000000Z"
    assert len(body["note"]) <= 1024  # the API server's limit
