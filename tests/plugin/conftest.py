"""Fixtures of the plugin's tests; loads vLLM without the warnings of its libraries."""

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from justitia.testing.vllm_harness import write_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("tiny-llama"))
