"""What the benchmark runs: a control plane that keeps an audit log, operator and service."""

import json
import os
import sys
from pathlib import Path

import yaml
from audit import Audit
from kube import parts
from kube.settings import API_SERVER

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "justitia"
RELEASE = "justitia"
NAMESPACE = "justitia-system"
ACCOUNT = f"{RELEASE}-operator"
SERVICE_ADDRESS = "127.0.0.1:50051"
OPERATOR_ADDRESS = "127.0.0.1:9096"

#: No pod runs here; these would only take time from what is measured.
_NEEDLESS = ("kubelet", "kube-proxy", "coredns", "kube-scheduler", "containerd")
_OVERRIDDEN = ("JUSTITIA_OPERATOR_SCHEDULER_ADDRESS", "JUSTITIA_OPERATOR_HTTP_ADDRESS")


class ControlPlane:
    """Of ``cluster`` only the control plane is left; ``operator`` and ``service`` are daemons."""

    def __init__(self, cluster, *, progress):
        self._commands = cluster.commands
        self._folder = cluster.sandbox.folder
        self.kubeconfig = cluster.kubeconfig
        self.audit = Audit(self._folder / "audit.log")
        for name in _NEEDLESS:
            cluster.daemons[name].stop()
        self._keep_audit_log(cluster)
        progress("the API server keeps an audit log")
        rendered = self._render()
        self._install(rendered)
        self.service = cluster.add_daemon("scheduler-service", self._service_command())
        self.operator = cluster.add_daemon("operator", self._operator_command(rendered))
        #: Largest resident set of the operators that have ended.
        self._peak_mib = 0.0

    def stop_operator(self, *, is_crash):
        self._peak_mib = self.operator_peak_mib()
        if is_crash:
            self.operator.kill()
        else:
            self.operator.stop()

    def restart_service(self, *, loses_all):
        self.service.stop()
        if loses_all:
            for file in self._folder.glob("journal.db*"):
                file.unlink()
        self.service.start()

    def operator_peak_mib(self):
        status = Path(f"/proc/{self.operator.pid}/status").read_text()
        (peak_kib,) = [line.split()[1] for line in status.splitlines() if "VmHWM" in line]
        return max(self._peak_mib, int(peak_kib) / 1024)

    def operator_cpu_s(self):
        fields = Path(f"/proc/{self.operator.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def _keep_audit_log(self, cluster):
        policy = self._folder / "audit.yaml"
        policy.write_text(
            json.dumps(
                {
                    "apiVersion": "audit.k8s.io/v1",
                    "kind": "Policy",
                    "omitStages": ["RequestReceived"],
                    "rules": [
                        {
                            "level": "Metadata",
                            "users": [f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"],
                        },
                        {"level": "None"},
                    ],
                }
            )
        )
        command = parts.commands(cluster.programs, cluster.files)["kube-apiserver"]
        cluster.daemons["kube-apiserver"].kill()
        audit = [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit.path}"]
        cluster.add_daemon("kube-apiserver", [*command, *audit])
        cluster.wait_for_api_server()

    def _render(self):
        shown = ("operator-rbac", "operator")
        text = self._commands.helm(
            *("template", RELEASE, str(CHART), "--namespace", NAMESPACE),
            *("--set", "tls.enabled=false"),
            *(part for name in shown for part in ("--show-only", f"templates/{name}.yaml")),
        )
        return {each["kind"]: each for each in yaml.safe_load_all(text) if each}

    def _install(self, rendered):
        self._commands.kubectl("create", "namespace", NAMESPACE)
        rights = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
        self._commands.apply(*(rendered[kind] for kind in rights))
        definitions = str(ROOT / "crds")
        self._commands.kubectl("apply", "--server-side", "-f", definitions)
        wait = ("wait", "--for=condition=Established", "--timeout=30s", "-f", definitions)
        self._commands.kubectl(*wait)

    def _service_command(self):
        return [
            *(sys.executable, "-m", "justitia_scheduler", f"--listen-address={SERVICE_ADDRESS}"),
            *("--metrics-address=off", "--log-format=json"),
            f"--journal-path={self._folder / 'journal.db'}",
        ]

    def _operator_command(self, rendered):
        (container,) = rendered["Deployment"]["spec"]["template"]["spec"]["containers"]
        set_by_chart = [
            f"{variable['name']}={variable['value']}"
            for variable in container["env"]
            if variable["name"].startswith("JUSTITIA_") and variable["name"] not in _OVERRIDDEN
        ]
        return [
            *("env", f"KUBECONFIG={self._operator_kubeconfig()}", "no_proxy=127.0.0.1"),
            *set_by_chart,
            *(sys.executable, "-m", "justitia_operator"),
            *(f"--scheduler-address={SERVICE_ADDRESS}", f"--http-address={OPERATOR_ADDRESS}"),
        ]

    def _operator_kubeconfig(self):
        create = ("create", "token", ACCOUNT, "--namespace", NAMESPACE, "--duration=8h")
        token = self._commands.kubectl(*create).strip()
        admin = json.loads(self.kubeconfig.read_text())
        authority = admin["clusters"][0]["cluster"]["certificate-authority"]
        path = self._folder / "operator.conf"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [
                        {
                            "name": "bench",
                            "cluster": {"server": API_SERVER, "certificate-authority": authority},
                        }
                    ],
                    "users": [{"name": ACCOUNT, "user": {"token": token}}],
                    "contexts": [{"name": "it", "context": {"cluster": "bench", "user": ACCOUNT}}],
                    "current-context": "it",
                }
            )
        )
        path.chmod(0o600)
        return path
