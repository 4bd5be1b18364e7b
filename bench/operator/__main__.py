"""The operator on a real control plane: how soon Ready, and what a restart and rest cost.

    make bench NAME=operator
    python bench/operator [--applications 1000] [--idle-s 300] [--singles 200] [--edits-s 10]

The tests' own etcd, kube-apiserver and kube-controller-manager; the operator and the scheduler
service as processes of their own; the operator with the chart's settings and with the rights of the
chart's ClusterRole. No engine and no pod: nothing here depends on them. Prometheus is played by a
scrape every 30 s. Needs root, Go and Debian as e2e/cluster does; about 15 minutes.

What the figures mean:

* ``ready_*_s``: from sending the create of an LLMApplication to the watch's event that shows
  Ready=True for its generation. In bursts of one to five, with all other applications there.
* ``gone_*_s``: from sending the delete until the scheduler service holds the application no longer.
* ``conflict_*``: other writers edit the objects while the operator works on them; see
  bench/operator/conflicts.py. Requests are all of the operator's, listings too, for each edit;
  ``conflict_refused``: those answered with 409 or 404, since the object had gone meanwhile or an
  event of the same second was there.
* ``idle_writes``: create, update, patch and delete requests of the operator's account in the API
  server's audit log, whatever they are about; no lease is left out, since it holds none. Counted
  from 90 s after the last change on.
* ``resync_s``: the operator is killed, the service loses its journal, and a fiftieth of the
  applications are changed, deleted or created meanwhile. From the operator's start as a process
  until the service holds all that there are again, with their weights and uids and nothing else,
  every status is of the present generation, and the operator has looked at every application.
  ``resync_kept_s``: the same where the service kept what it held.
* ``memory_mib``: the largest resident set of the operator over all of this (VmHWM).
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import signal
import sys
import tempfile
from pathlib import Path

# Not bench/operator.py: that would be the standard library's `operator` to its neighbours.
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "e2e" / "cluster"))

CANNOT_RUN_HERE = 77
SEED = 1


def read_options():
    usage = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="bench/operator", description=__doc__, formatter_class=usage
    )
    add = parser.add_argument
    add("--applications", type=int, default=1000, help="that are there all the time")
    add("--idle-s", type=float, default=300.0, help="how long writes at rest are counted")
    add("--settle-s", type=float, default=90.0, help="from the last change to rest")
    add("--singles", type=int, default=200, help="applications that Ready is timed with")
    add("--edits-s", type=float, default=10.0, help="how long others edit, for each way to edit")
    add("--logs", type=Path, help="folder that logs and the audit log are kept in; none: nowhere")
    options = parser.parse_args()
    if options.applications < 50:
        parser.error("--applications: at least 50")
    return options


@contextlib.contextmanager
def logs_folder(options):
    if options.logs is not None:
        options.logs.mkdir(parents=True, exist_ok=True)
        yield options.logs.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="justitia-bench-") as folder:
        yield Path(folder)


def say(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def measure(options):
    from control_plane import ControlPlane
    from kube.cluster import Cluster
    from phases import measure_all

    with logs_folder(options) as logs, Cluster(log_folder=logs, progress=say) as cluster:
        plane = ControlPlane(cluster, progress=say)
        try:
            with cluster.sandbox.joined_network():
                return asyncio.run(measure_all(plane, options, seed=SEED, progress=say))
        finally:
            if options.logs is not None:
                plane.audit.copy_to(logs / "audit.log")


def describe(options):
    from kube.programs import KUBERNETES_VERSION

    return (
        f"{options.applications} applications in 10 namespaces; {options.singles} more one to five"
        f" at a time; {options.idle_s:g} s at rest; Kubernetes {KUBERNETES_VERSION}, etcd without"
        " fsync; gRPC without TLS; control plane, service, operator and this program together on"
        f" {os.cpu_count()} CPU cores; Python {platform.python_version()}"
    )


def main():
    options = read_options()
    from kube.errors import ClusterError, NoClusterError

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        figures = measure(options)
    except KeyboardInterrupt:
        say("interrupted; nothing is left")
        return 130
    except NoClusterError as error:
        say(f"no cluster: {error}")
        return CANNOT_RUN_HERE
    except ClusterError as error:
        cause = f": {error.__cause__!r}" if error.__cause__ else ""
        say(f"error: {error}{cause}")
        return 1
    result = {
        "name": "operator",
        "figures": figures,
        "reference": "Kubernetes' own objective for one changing API call: 1 s at the 99th"
        " percentile",
        "seeds": [SEED],
        "conditions": describe(options),
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
