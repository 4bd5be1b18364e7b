"""Settings: bad values are refused at start, in one sentence that names them."""

import pytest

from justitia.vllm_plugin.settings import Settings, SettingsError, load_settings


def test_nothing_set_means_the_defaults():
    assert load_settings({}) == Settings()


def test_values_are_read_from_the_environment():
    settings = load_settings(
        {
            "JUSTITIA_POLICY": "vtc",
            "JUSTITIA_SCHEDULER_ADDRESS": "scheduler.justitia:50051",
            "JUSTITIA_POOL": "llama",
            "JUSTITIA_ENGINE_ID": "engine-a",
            "JUSTITIA_REPORT_PERIOD_S": "0.2",
            "JUSTITIA_MODE": "shadow",
            "JUSTITIA_DEFAULT_COST_KVTT": "5e6",
            "JUSTITIA_WEIGHTS": "chat=2, batch = 0.5",
        }
    )

    assert settings.policy == "vtc"
    assert settings.scheduler_address == "scheduler.justitia:50051"
    assert settings.named_for(3) == "engine-a-3"
    assert settings.report_period_s == 0.2
    assert settings.default_cost_kvtt == 5_000_000
    assert settings.mode == "shadow"
    assert settings.weight_by_application() == {"chat": 2.0, "batch": 0.5}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("JUSTITIA_POLICY", "lottery", "must be one of fcfs"),
        ("JUSTITIA_SCHEDULER_ADDRESS", "no-port", "must be host:port"),
        ("JUSTITIA_SCHEDULER_ADDRESS", "h:70000", "must be host:port"),
        ("JUSTITIA_SCHEDULER_ADDRESS", "http://h:1", "must be host:port"),
        ("JUSTITIA_POOL", "x" * 257, "printable"),
        ("JUSTITIA_ENGINE_ID", "a\x01", "printable"),
        ("JUSTITIA_REPORT_PERIOD_S", "fast", "must be a number"),
        ("JUSTITIA_REPORT_PERIOD_S", "nan", "finite"),
        ("JUSTITIA_REPORT_PERIOD_S", "0.001", "from 0.05"),
        ("JUSTITIA_MODE", "off", "enforce or shadow"),
        ("JUSTITIA_RUN_IDLE_TIMEOUT_S", "0", "from 1"),
        ("JUSTITIA_DEFAULT_COST_KVTT", "-5", "from 1"),
        ("JUSTITIA_WEIGHTS", "a=0", "name=weight"),
        ("JUSTITIA_WEIGHTS", "a", "name=weight"),
        ("JUSTITIA_TLS_CA", "/nowhere/ca.pem", "readable file"),
        ("JUSTITIA_TLS_CERT", "/etc/hostname", "together"),
        ("JUSTITIA_ALLOW_UNTESTED_VLLM", "yes", "0 or 1"),
    ],
)
def test_a_bad_value_is_refused_by_name(name, value, words):
    with pytest.raises(SettingsError, match=words) as refused:
        load_settings({name: value})

    assert name in str(refused.value)
    assert "\n" not in str(refused.value)
