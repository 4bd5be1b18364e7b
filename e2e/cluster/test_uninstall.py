"""The end of the release: last of all files, by its name."""

from kube.daemon import wait_until
from kube.release import RELEASE


def test_uninstall_leaves_what_keep_says_and_nothing_else(release):
    release.kubectl("delete", "llmapp,predprof", "--all", "--timeout=30s")

    release.commands.helm("uninstall", RELEASE, "--namespace", release.namespace, "--wait")

    def left():
        listed = release.kubectl(
            *("get", "all,pvc,secret,configmap,role,rolebinding,networkpolicy,pdb,sa"),
            *("-l", "app.kubernetes.io/name=justitia", "-o", "name"),
        )
        return {name.split("/")[0] for name in listed.split()}

    kept = {"persistentvolumeclaim", "secret"}  # state, and the authority that clients trust
    wait_until("all else is gone", lambda: left() <= kept, timeout_s=120, period_s=1)
    assert "persistentvolumeclaim" in left()
    cluster_wide = release.commands.kubectl(
        *("get", "clusterrole,clusterrolebinding", "-o", "name"),
        *("-l", "app.kubernetes.io/instance=justitia"),
    )
    assert cluster_wide == ""
    assert "llmapplications" in release.commands.kubectl("get", "crd", "-o", "name")
