"""Asks the operator for a training: an annotation that it reads, nothing else."""

from datetime import UTC, datetime
from typing import Final

from justitia.cli.port_forward import Kubectl, KubectlError

#: As the operator reads it.
ANNOTATION: Final = "justitia.dev/training-requested-at"


def request_training(kubectl: Kubectl, application: str) -> str:
    """Ask for a training of an application's predictor; returns what to tell the user.

    Raises:
        KubectlError: there is no such application, it has no PredictorProfile, or kubectl refuses.
    """
    found = kubectl.get("llmapplications.justitia.dev", application)
    profile = found.get("spec", {}).get("predictor", {}).get("profileRef", {}).get("name", "")
    if not profile:
        raise KubectlError(
            f"application {application} names no PredictorProfile (spec.predictor.profileRef), "
            "so there is nothing to train by"
        )
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    note = f"{ANNOTATION}={moment}"
    kubectl.run("annotate", "llmapplications.justitia.dev", application, note, "--overwrite")
    return (
        f"asked for at {moment}; it starts once the profile's minSamples are there.\n"
        f"  kubectl get predprof {profile} --output=yaml   # status.applications: lastJob"
    )
