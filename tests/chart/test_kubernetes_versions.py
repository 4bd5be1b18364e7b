"""Every case is what each supported Kubernetes knows: offline, against its own schemas."""

import functools

import kubernetes_validate
import pytest
from kubernetes_validate import utils

VERSIONS = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
#: Groups whose objects others define; their shapes are tested elsewhere.
FOREIGN = ("monitoring.coreos.com", "cert-manager.io", "apiextensions.k8s.io")


@pytest.fixture(scope="module", autouse=True)
def _schemas_are_read_once():
    """Each of them has 2 MB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "schema_contents", functools.cache(utils.schema_contents))
        yield


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid(helm, case, version):
    if case == "dra" and version < "1.34":
        pytest.skip("resource claims came with 1.34; the chart refuses them before")
    for o in helm.case(case).objects:
        if not o["apiVersion"].startswith(FOREIGN):
            kubernetes_validate.validate(o, version, strict=True)


def test_the_check_finds_a_field_that_does_not_exist(helm):
    deployment = helm.case("a100").one("Deployment", "justitia-chat")
    broken = {**deployment, "spec": {**deployment["spec"], "replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[0], strict=True)


def test_claims_are_refused_where_kubernetes_has_none(helm, values_of):
    message = helm.refusal(values_of("dra"), flags=("--kube-version", "1.33.0"))
    assert 'pool "chat" uses resource claims, which need Kubernetes 1.34 or newer' in message


def test_an_old_kubernetes_is_refused(helm):
    message = helm.refusal({}, flags=("--kube-version", "1.30.9"))
    assert "requires kubeVersion: >=1.31.0-0" in message
