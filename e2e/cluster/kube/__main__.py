"""``python -m kube``: run a cluster until Ctrl-C, to look around in or to work against.

PYTHONPATH=e2e/cluster .venv/bin/python -m kube
"""

import signal
import sys
import tempfile
from pathlib import Path

from kube.cluster import Cluster
from kube.errors import ClusterError
from kube.gpus import Gpus


def main() -> int:
    """Start one, say how to use it, wait."""
    logs = Path(tempfile.mkdtemp(prefix="justitia-cluster-logs-"))
    try:
        with Cluster(log_folder=logs, progress=_say) as cluster:
            Gpus(cluster)
            enter = " ".join(cluster.sandbox.on_network("env", *_assignments(cluster)))
            shell = cluster.sandbox.folder / "shell"
            shell.write_text(f'#!/bin/bash\nexec {enter} "${{@:-bash}}"\n')
            shell.chmod(0o755)
            _say(f"logs: {logs}")
            _say(f"{shell} [COMMAND ...] runs a command, or a shell, on the cluster's network;")
            _say("kubectl, helm and KUBECONFIG are set there. Ctrl-C ends the cluster.")
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except ClusterError as error:
        _say(str(error))
        return 1
    return 0


def _assignments(cluster: Cluster) -> list[str]:
    return [f"{name}={value}" for name, value in cluster.commands.env.items()]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
