"""What the cluster is put together from, without one."""

import datetime as dt
import json
import ssl
import sys
import tarfile
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from kube.archives import write_image
from kube.debian import ensure_installed
from kube.errors import ClusterError, NoClusterError
from kube.existing import ExistingCluster
from kube.go_modules import GoModule, ensure_built, ensure_sources
from kube.images import select_packages
from kube.keys import Authority
from kube.programs import MODULES, Programs, kubernetes

X = {
    "name": "x",
    "path": "example.org/x",
    "version": "v1.0.0",
    "programs": {"x": "example.org/x"},
}
PINNED = """\
grpcio==1.2.3 \\
    --hash=sha256:aa
    # via x
torch==2.0 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via y
"""


def ignore(_text):
    """Progress that nobody reads."""


def test_kubernetes_takes_its_staging_modules_from_their_releases():
    module = kubernetes("v1.35.4")

    assert module.staging_version == "v0.35.4"
    assert module.variables["k8s.io/component-base/version.gitMinor"] == "35"


def test_every_module_has_a_folder_of_its_own():
    assert len({module.release for module in MODULES}) == len(MODULES)


def test_programs_that_are_there_are_not_built_again(tmp_path):
    module = GoModule(**X)
    there = tmp_path / "bin" / module.release
    there.mkdir(parents=True)

    assert ensure_built(module, tmp_path, progress=ignore) == there


def test_without_go_the_reason_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    module = GoModule(**X)

    with pytest.raises(NoClusterError, match=r"no Go to build x-v1\.0\.0 with: install it from"):
        ensure_built(module, tmp_path, progress=ignore)


def test_a_failed_build_shows_what_go_said_and_leaves_no_programs(tmp_path, monkeypatch):
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'no such module' >&2; exit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    module = GoModule(**X)

    with pytest.raises(ClusterError, match="no such module"):
        ensure_built(module, tmp_path, progress=ignore)
    assert not (tmp_path / "bin" / module.release).exists()


def test_own_programs_must_be_complete(tmp_path, monkeypatch):
    monkeypatch.setattr("kube.programs._OWN_PROGRAMS", str(tmp_path))

    with pytest.raises(NoClusterError, match=r"lacks kube-apiserver, .*helm"):
        Programs.ensure(progress=ignore)


def test_who_is_not_root_is_told_so(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    with pytest.raises(NoClusterError, match="needs root"):
        ensure_installed({}, progress=ignore)


def test_a_kubeconfig_without_kubectl_is_told_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoClusterError, match="kubectl and helm not installed"):
        ExistingCluster(progress=ignore)


def test_certificates_are_good_for_the_hosts_they_name(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("api", common_name="api", hosts=["localhost", "10.0.0.1"])

    context = ssl.create_default_context(cafile=authority.certificate_path)
    context.load_cert_chain(certificate, key)
    assert key.stat().st_mode & 0o077 == 0
    names = ssl._ssl._test_decode_cert(str(certificate))["subjectAltName"]
    assert names == (("DNS", "localhost"), ("IP Address", "10.0.0.1"))


def test_a_pair_may_be_for_one_side_and_a_short_time(tmp_path):
    pem, _ = Authority(tmp_path, name="theirs").pair(
        hosts=["localhost"],
        usages=[ExtendedKeyUsageOID.CLIENT_AUTH],
        lifetime=dt.timedelta(seconds=30),
    )

    certificate = x509.load_pem_x509_certificate(pem)
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [*usages] == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert certificate.not_valid_after_utc < dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.critical  # since the subject is empty


def test_a_folder_of_a_modules_sources_is_copied_once(tmp_path, monkeypatch):
    sources = tmp_path / "proxy" / "deploy" / "crds"
    sources.mkdir(parents=True)
    (sources / "example.org_things.yaml").write_text("kind: CustomResourceDefinition")
    go = tmp_path / "go"
    go.write_text(f"""#!/bin/sh\necho '{{"Dir": "{tmp_path}/proxy"}}'\n""")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    copy = ensure_sources(GoModule(**X), "deploy/crds", tmp_path / "cache", progress=ignore)
    go.write_text("#!/bin/sh\nexit 1\n")

    assert [path.name for path in copy.iterdir()] == ["example.org_things.yaml"]
    again = ensure_sources(GoModule(**X), "deploy/crds", tmp_path / "cache", progress=ignore)
    assert again == copy


def test_an_archive_is_one_layer_with_its_config(tmp_path):
    archive = tmp_path / "image.tar"
    write_image(
        archive,
        "docker.io/x/python:1",
        programs={"/bin/python": Path(sys.executable)},
        links={"/bin/py": "python"},
        entrypoint=["/bin/python"],
    )

    with tarfile.open(archive) as image:
        (manifest,) = json.load(image.extractfile("manifest.json"))
        with tarfile.open(fileobj=image.extractfile(manifest["Layers"][0])) as layer:
            assert layer.getmember("bin/python").mode == 0o755
            assert layer.getmember("bin/py").linkname == "python"
    assert manifest["RepoTags"] == ["docker.io/x/python:1"]


def test_packages_leave_a_pinned_file_with_their_hashes():
    assert select_packages(PINNED, lambda name: name != "torch") == (
        "grpcio==1.2.3 \\\n    --hash=sha256:aa\n    # via x\n"
    )
