"""Artefacts that are too large to be any model are refused by their size alone (FP2)."""

import grpc
import pytest

from justitia.api.v1 import training_pb2
from justitia.core.limits import MAX_ARTEFACT_BYTES
from justitia.predictor import artefact
from justitia.testing.models import handmade_model


@pytest.mark.parametrize(
    ("num_bytes", "code", "said"),
    [
        (
            MAX_ARTEFACT_BYTES + 1,
            grpc.StatusCode.INVALID_ARGUMENT,
            f"artefact: must have 1 to {MAX_ARTEFACT_BYTES} bytes, got {MAX_ARTEFACT_BYTES + 1}",
        ),
        # Beyond the largest message nothing of it is kept to look at.
        (2 * MAX_ARTEFACT_BYTES, grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"),
    ],
)
async def test_an_oversized_artefact_is_refused_unread_and_the_one_before_stays(
    bench, monkeypatch, num_bytes, code, said
):
    await bench.declare("chat")
    model = handmade_model("chat")
    content = artefact.to_bytes(model)
    request = training_pb2.PublishModelRequest(application="chat", artefact=content)
    await bench.training.PublishModel(request)

    def parsed(*_, **__):
        raise AssertionError("it was read")

    monkeypatch.setattr(artefact, "_parse", parsed)
    request.artefact = content + bytes(num_bytes - len(content))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.training.PublishModel(request)
    assert error.value.code() is code
    assert said in error.value.details()
    assert bench.service.parts("default").predictor.models["chat"].version == model.version
