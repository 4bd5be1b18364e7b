"""Settings of the operator: flags and variables, refused in one sentence."""

import pytest

from justitia_operator.__main__ import main
from justitia_operator.process import tls_files, trainer_options
from justitia_operator.settings import SettingsError, read_settings


def test_flags_win_over_variables_and_both_over_defaults():
    environment = {
        "JUSTITIA_OPERATOR_RESYNC_S": "7",
        "JUSTITIA_OPERATOR_WATCH_NAMESPACES": "a, b,,a",
        "JUSTITIA_OPERATOR_OWNER": "",
    }
    settings = _read(["--resync-s=9"], environment)
    assert settings.resync_s == 9
    assert settings.namespaces == ("a", "b")
    assert settings.owner == "justitia-operator"
    assert settings.training_image.startswith("justitia/trainer:")


def _read(arguments, environment):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return read_settings(arguments, environment)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--resync-s=0"], "resync_s"),
        (["--figures-s=soon"], "figures_s"),
        (["--http-address=8080"], "http_address: must be host:port, got '8080'"),
        (["--tls-cert=a.pem"], "tls_cert and tls_key must be given together"),
        (["--tls-cert=a.pem", "--tls-key=b.pem"], "tls_cert needs tls_ca"),
        (["--owner=a:b"], "owner"),
        (["--max-training-jobs=0"], "max_training_jobs"),
        (["--log-format=xml"], "log_format"),
    ],
)
def test_bad_values_are_refused_by_name(arguments, said):
    with pytest.raises(SettingsError, match=said):
        read_settings(arguments, {})


def test_unknown_variables_are_refused():
    with pytest.raises(SettingsError, match="JUSTITIA_OPERATOR_RESYNC: no such setting"):
        read_settings([], {"JUSTITIA_OPERATOR_RESYNC": "5"})


def test_fk11_variables_that_kubernetes_injects_for_a_service_of_our_name_are_not_settings():
    injected = {
        "JUSTITIA_OPERATOR_SERVICE_HOST": "10.0.0.7",
        "JUSTITIA_OPERATOR_SERVICE_PORT": "8080",
        "JUSTITIA_OPERATOR_SERVICE_PORT_HTTP": "8080",
        "JUSTITIA_OPERATOR_PORT": "tcp://10.0.0.7:8080",
        "JUSTITIA_OPERATOR_PORT_8080_TCP_ADDR": "10.0.0.7",
    }
    assert read_settings([], injected).http_address == "127.0.0.1:9096"


def test_jobs_may_reach_the_service_elsewhere():
    settings = read_settings(["--scheduler-address=a:1"], {})
    assert trainer_options(settings).scheduler_address == "a:1"
    settings = read_settings(["--scheduler-address=a:1", "--training-scheduler-address=b:2"], {})
    assert trainer_options(settings).scheduler_address == "b:2"


def test_tls_files_are_named_and_the_authority_reaches_jobs(tmp_path):
    ca = tmp_path / "ca.crt"
    ca.write_text("-----BEGIN CERTIFICATE-----\n")
    settings = read_settings([f"--tls-ca={ca}"], {})
    assert tls_files(settings).ca == ca
    assert trainer_options(settings).ca_pem.startswith("-----BEGIN")
    assert tls_files(read_settings([], {})) is None


def test_an_authority_that_cannot_be_read_is_told(tmp_path):
    settings = read_settings([f"--tls-ca={tmp_path / 'absent.pem'}"], {})
    with pytest.raises(SettingsError, match=r"absent\.pem cannot be read"):
        trainer_options(settings)


def test_without_a_cluster_one_sentence_says_what_to_do(monkeypatch, tmp_path, capsys):
    location = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(location, str(tmp_path / "absent"))
    assert main([]) == 2
    said = capsys.readouterr().err
    assert said.startswith("justitia-operator: no cluster:")
    assert "set KUBECONFIG" in said


def test_bad_settings_are_one_sentence_and_code_2(capsys):
    assert main(["--resync-s=0"]) == 2
    assert capsys.readouterr().err.startswith("justitia-operator: resync_s:")


def test_the_packages_root_is_no_package_itself():
    """With operator/__init__.py the standard library's operator would be hidden from the root."""
    from pathlib import Path

    import justitia_operator

    root = Path(justitia_operator.__file__).parent.parent
    assert root.name == "operator"
    assert not (root / "__init__.py").exists()
