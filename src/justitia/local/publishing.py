"""Publishes what was trained here, with the evidence that the service's gate judges it by."""

from justitia.api.v1 import training_pb2
from justitia.client import Client
from justitia.predictor import artefact
from justitia.predictor.training import Trained

_SHOWN_CHARS = 12


def publish_model(client: Client, trained: Trained, *, pool: str, is_forced: bool) -> str:
    """Publish a model; returns one line about what the service made of it.

    Raises:
        SchedulerError: the service refuses it, or does not answer.
    """
    name = trained.model.application
    held_out = (
        training_pb2.HeldOutRun(
            run_id=run.run_id, cost_kvtt=run.cost_kvtt, predicted_kvtt=run.predicted_kvtt
        )
        for run in trained.held_out
    )
    answer = client.publish_model(
        name, artefact.to_bytes(trained.model), pool=pool, held_out=held_out, is_forced=is_forced
    )
    verdict = "active" if answer.is_active else "stored, not active"
    return f"published {name} {answer.version[:_SHOWN_CHARS]}: {verdict}: {answer.reason}"
