"""Gives Justitia's pods the machine's own Python packages: torch and vLLM are too big for images.

An image with them takes many minutes to build and to import. So the tests' images lack them, and a
mutating admission policy of the cluster mounts the folder of the packages that the test run itself
uses, read-only, into the pods of engines and training Jobs. The product knows nothing of it.
"""

import site
import sys
from pathlib import Path
from typing import Any, Final

#: Component of the tests' own pods that want the packages too.
CLIENT_COMPONENT: Final = "e2e-client"

_PACKAGES_PATH: Final = "/opt/e2e/site-packages"
_NAME: Final = "justitia-e2e-environment"
_LABEL: Final = "app.kubernetes.io/component"
#: Components whose pods get the packages; the others' images have all they need.
_COMPONENTS: Final = ("engine", "trainer", CLIENT_COMPONENT)


def packages_folder() -> Path:
    """Folder of the packages that this process imports."""
    (folder,) = [Path(each) for each in site.getsitepackages() if Path(each, "torch").is_dir()]
    return folder.resolve()


def python_version() -> str:
    """Version that compiled packages fit, such as ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def environment_objects() -> list[dict[str, Any]]:
    """Build the policy and its binding."""
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": _NAME},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "objectSelector": {
                    "matchExpressions": [
                        {"key": _LABEL, "operator": "In", "values": list(_COMPONENTS)}
                    ]
                },
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
            },
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": _expression()},
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": _NAME},
        "spec": {"policyName": _NAME},
    }
    return [policy, binding]


def _expression() -> str:
    """Write what is merged into a pod, in the API server's expression language."""
    volume = (
        'Object.spec.volumes{name: "e2e-packages", hostPath: '
        f'Object.spec.volumes.hostPath{{path: "{packages_folder()}", type: "Directory"}}}}'
    )
    mount = (
        'Object.spec.containers.volumeMounts{name: "e2e-packages", readOnly: true, '
        f'mountPath: "{_PACKAGES_PATH}"}}'
    )
    variable = f'Object.spec.containers.env{{name: "PYTHONPATH", value: "{_PACKAGES_PATH}"}}'
    container = (
        "Object.spec.containers{name: container.name, "
        f"volumeMounts: [{mount}], env: [{variable}]}}"
    )
    return (
        f"Object{{spec: Object.spec{{volumes: [{volume}], "
        f"containers: object.spec.containers.map(container, {container})}}}}"
    )
