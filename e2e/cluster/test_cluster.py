"""The cluster that all other tests here stand on: pods, names, storage, GPUs, restarts."""

import json
import time

import pytest
from kube.daemon import wait_until
from kube.errors import CommandError


def pod(name, namespace, *command, image, **spec):
    container = {"name": "main", "image": image, "command": list(command)}
    container |= {
        field: spec.pop(field) for field in ("resources", "volumeMounts") if field in spec
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }


@pytest.fixture(scope="module")
def run_pod(cluster, namespace):
    """``run_pod(name, *command, ...)`` makes a pod."""

    def run(name, *command, **spec):
        made = pod(name, namespace, *command, image=cluster.tool_image, **spec)
        cluster.commands.apply(made)

    return run


@pytest.fixture(scope="module")
def finish(kubectl, namespace):
    """``finish(name)`` waits for a pod's end and returns what it printed."""

    def wait(name):
        succeeded = "--for=jsonpath={.status.phase}=Succeeded"
        kubectl("wait", "-n", namespace, succeeded, f"pod/{name}", "--timeout=60s")
        return kubectl("logs", "-n", namespace, name)

    return wait


def test_the_node_is_ready(cluster):
    nodes = cluster.commands.get("nodes")["items"]

    conditions = {each["type"]: each["status"] for each in nodes[0]["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert conditions["MemoryPressure"] == conditions["DiskPressure"] == "False"


def test_a_restricted_pod_runs_and_its_log_can_be_read(run_pod, finish):
    run_pod(
        "restricted",
        *("sh", "-c", "id -u; touch /x 2>&1 || true"),
        securityContext={
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    )

    assert finish("restricted").split() == ["65532", "read-only"] or "denied" in finish(
        "restricted"
    )


def test_services_have_names_and_other_names_fail_at_once(in_cluster):
    started_at_s = time.monotonic()

    assert "10.96.0.1" in in_cluster("nslookup", "kubernetes.default.svc.cluster.local")
    with pytest.raises(CommandError, match="NXDOMAIN"):
        in_cluster("nslookup", "example.invalid.")
    assert time.monotonic() - started_at_s < 5


def test_pods_reach_the_api_server_by_its_service(in_cluster):
    with pytest.raises(CommandError, match="400 Bad Request"):  # it wants TLS
        in_cluster("wget", "-q", "-O-", "http://kubernetes.default:443/")


def test_a_pod_calls_another_through_a_service(kubectl, cluster, namespace, in_cluster):
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "answers", "namespace": namespace},
        "spec": {"selector": {"app": "answers"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    server = pod(
        "answers", namespace, "httpd", "-f", "-p", "8080", "-h", "/etc", image=cluster.tool_image
    )
    server["metadata"]["labels"] = {"app": "answers"}
    cluster.commands.apply(service, server)
    kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/answers", "--timeout=60s")

    def answers():
        try:
            return "nameserver" in in_cluster(
                "wget", "-q", "-O-", f"http://answers.{namespace}/resolv.conf"
            )
        except CommandError:  # kube-proxy learns of a new Service a moment later
            return False

    wait_until("the Service answers", answers, timeout_s=20)


def test_a_claim_gets_a_volume_that_a_group_may_write(cluster, namespace, run_pod, finish):
    cluster.commands.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "state", "namespace": namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    run_pod(
        "writer",
        *("sh", "-c", "echo kept > /state/file && cat /state/file"),
        securityContext={"runAsUser": 65532, "fsGroup": 65532},
        volumes=[{"name": "state", "persistentVolumeClaim": {"claimName": "state"}}],
        volumeMounts=[{"name": "state", "mountPath": "/state"}],
    )

    assert finish("writer").strip() == "kept"


def gpu_pod(run_pod, name, count, **spec):
    run_pod(
        name,
        *("sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; sleep 3600"),
        resources={"limits": {"nvidia.com/gpu": count}},
        nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        **spec,
    )


def test_gpus_are_allocatable(gpus):
    assert gpus.allocatable() == 8


def test_kubelet_gives_a_pod_devices_of_its_own(gpus, kubectl, namespace, run_pod):
    for name, count in (("two", 2), ("four", 4)):
        gpu_pod(run_pod, name, count)
        kubectl("wait", "-n", namespace, "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
    seen = {name: kubectl("logs", "-n", namespace, name).strip() for name in ("two", "four")}
    two, four = (set(seen[name].split(",")) for name in ("two", "four"))

    assert (len(two), len(four), two & four) == (2, 4, set())
    assert [set(each) for each in gpus.allocations()[-2:]] == [two, four]
    kubectl("delete", "-n", namespace, "pod/two", "pod/four", "--wait")


def test_a_pod_that_wants_more_gpus_than_there_are_stays_pending(gpus, kubectl, namespace, run_pod):
    gpu_pod(run_pod, "nine", gpus.count + 1)
    unscheduled = "--for=condition=PodScheduled=false"
    kubectl("wait", "-n", namespace, unscheduled, "pod/nine", "--timeout=30s")

    found = json.loads(kubectl("get", "-n", namespace, "pod/nine", "-o", "json"))
    (condition,) = [c for c in found["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert "Insufficient nvidia.com/gpu" in condition["message"]
    kubectl("delete", "-n", namespace, "pod/nine", "--wait")


def test_broken_gpus_are_not_offered_until_they_heal(gpus):
    from device_plugin import device_ids

    gpus.break_devices(*device_ids(3))
    gpus.wait_allocatable(5)
    gpus.break_devices()
    gpus.wait_allocatable(8)


def test_gpus_come_back_after_a_restart_of_kubelet(gpus, own_cluster):
    kubelet = own_cluster.daemons["kubelet"]
    kubelet.kill()
    kubelet.start()

    gpus.wait_announced_again()
    gpus.wait_allocatable(8)


def test_the_cluster_survives_the_death_of_its_api_server(own_cluster, kubectl, namespace):
    server = own_cluster.daemons["kube-apiserver"]
    server.kill()
    with pytest.raises(CommandError, match="refused"):
        kubectl("get", "nodes")
    server.start()
    own_cluster.wait_for_api_server()

    assert namespace in kubectl("get", "namespaces", "-o", "name")
