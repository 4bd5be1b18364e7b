"""The flags that the chart gives are flags of the vLLM that is installed here."""

import pytest


def test_every_flag_is_one_that_vllm_knows(helm, cases):
    cli_args = pytest.importorskip("vllm.entrypoints.launchers.cli_args")
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = cli_args.make_arg_parser(FlexibleArgumentParser())
    engines = [
        deployment["spec"]["template"]["spec"]["containers"][0]
        for case in cases
        for deployment in helm.case(case).of("Deployment")
        if deployment["metadata"]["labels"]["app.kubernetes.io/component"] == "engine"
    ]
    assert engines != []
    for engine in engines:
        parsed = parser.parse_args(engine["args"])
        assert parsed.scheduler_cls == "justitia.vllm_plugin.JustitiaScheduler"
        assert parsed.middleware == ["justitia.vllm_plugin.RunIdentity"]
