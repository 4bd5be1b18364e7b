"""What a cluster knows of an application's training: by which profile, and to ask for one.

The operator is asked by an annotation that it reads, nothing else.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from justitia.cli.port_forward import Kubectl, KubectlError

#: As the operator reads it.
ANNOTATION: Final = "justitia.dev/training-requested-at"


_APPLICATIONS: Final = "llmapplications.justitia.dev"
_PROFILES: Final = "predictorprofiles.justitia.dev"


def request_training(kubectl: Kubectl, application: str) -> str:
    """Ask for a training of an application's predictor; returns what to tell the user.

    Raises:
        KubectlError: there is no such application, it has no PredictorProfile, or kubectl refuses.
    """
    profile = _profile_name(kubectl.get(_APPLICATIONS, application))
    if not profile:
        raise KubectlError(
            f"application {application} names no PredictorProfile (spec.predictor.profileRef), "
            "so there is nothing to train by"
        )
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    note = f"{ANNOTATION}={moment}"
    kubectl.run("annotate", _APPLICATIONS, application, note, "--overwrite")
    return (
        f"asked for at {moment}; it starts once the profile's minSamples are there.\n"
        f"  kubectl get predprof {profile} --output=yaml   # status.applications: lastJob"
    )


def fetch_profile(kubectl: Kubectl, application: str, folder: Path) -> Path | None:
    """Write the PredictorProfile that an application names in a cluster to a file in ``folder``.

    ``application`` is its name, or namespace/name where a pool is shared. None: there is no such
    application, or it names no profile.

    Raises:
        KubectlError: kubectl refuses, or there is no profile of that name.
    """
    namespace, _, name = application.rpartition("/")
    if namespace:
        kubectl = replace(kubectl, namespace=namespace)
    declared = kubectl.find(_APPLICATIONS, name)
    profile = _profile_name(declared or {})
    if not profile:
        return None
    found = kubectl.find(_PROFILES, profile)
    if found is None:
        raise KubectlError(f"application {application} names PredictorProfile {profile}, not there")
    path = folder / f"{profile}.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def _profile_name(application: dict[str, Any]) -> str:
    reference = application.get("spec", {}).get("predictor", {}).get("profileRef", {})
    return str(reference.get("name", ""))
