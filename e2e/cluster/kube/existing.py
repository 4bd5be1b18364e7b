"""A cluster that somebody else runs, named by JUSTITIA_E2E_KUBECONFIG.

Not by KUBECONFIG: whoever exported that for their daily work did not mean these tests.
"""

import os
import shutil
import time
from typing import Final

from kube.commands import Commands
from kube.errors import CommandError, NoClusterError, Progress

VARIABLE: Final = "JUSTITIA_E2E_KUBECONFIG"

_TOOL_IMAGE: Final = "docker.io/library/busybox:1.37"


class ExistingCluster:
    """What the tests need of any cluster."""

    def __init__(self, *, progress: Progress) -> None:
        """Look for kubectl and helm on the PATH, and for the cluster.

        Raises:
            NoClusterError: one of them is missing, nobody answers, or Justitia is on it.
        """
        missing = [name for name in ("kubectl", "helm") if shutil.which(name) is None]
        if missing:
            raise NoClusterError(f"{VARIABLE} is set, but {' and '.join(missing)} not installed")
        self.commands = Commands(
            kubectl="kubectl", helm="helm", env={**os.environ, "KUBECONFIG": os.environ[VARIABLE]}
        )
        self.tool_image = os.environ.get("JUSTITIA_E2E_TOOL_IMAGE", _TOOL_IMAGE)
        self.seconds_by_phase: dict[str, float] = {}
        started_at_s = time.monotonic()
        try:
            context = self.commands.kubectl("config", "current-context").strip()
            self.commands.kubectl("get", "--raw", "/readyz", timeout_s=30)
        except CommandError as error:
            raise NoClusterError(f"the cluster of {VARIABLE} does not answer: {error}") from None
        if "justitia.dev" in self.commands.kubectl("get", "crd", "-o", "name"):
            raise NoClusterError(
                f"Justitia is installed on the cluster of context {context!r}, and the tests would"
                " change its resource definitions: use one without it"
            )
        self.seconds_by_phase["answer"] = time.monotonic() - started_at_s
        progress(f"testing on the cluster of context {context!r}")
