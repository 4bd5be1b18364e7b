"""Checks of an artefact's parts, from the header to the test prompt, in the order of use.

Each takes what the artefact claims and returns it typed, or raises `ArtefactError`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import numpy as np
import safetensors.numpy

from justitia.core.units import MAX_COST_KVTT
from justitia.predictor.features import LENGTH_FEATURES, MAX_TERM_CHARS, Featuriser, FloatArray
from justitia.predictor.gaussian_process import MAX_SUPPORT, GaussianProcess
from justitia.predictor.model import MIN_COST_KVTT, TrainedModel, TrainingMetrics
from justitia.predictor.network import NUM_LAYERS, Network
from justitia.predictor.regressor import ModelKind, Regressor
from justitia.predictor.samples import require_application

FORMAT_VERSION: Final = 2
DOCUMENT_KEY: Final = "justitia"
"""Key of the JSON document in the metadata of the safetensors header."""
MAX_HEADER_BYTES: Final = 4 * 2**20
MAX_TERMS: Final = 8192
MAX_WIDTH: Final = 512
MAX_WEIGHT: Final = 1e4
"""Largest weight: with the widths above no sum in the network can then overflow."""
MAX_RANGE_FACTOR: Final = 1000.0
COST_RANGE_KVTT: Final = (MIN_COST_KVTT, MAX_COST_KVTT)
"""What training learns from."""
PREDICTED_RANGE_KVTT: Final = (MIN_COST_KVTT / MAX_RANGE_FACTOR, MAX_COST_KVTT * MAX_RANGE_FACTOR)
"""What a model can say. Quotients of this and of a cost stay finite."""
MAX_COUNT: Final = 2**31 - 1
"""Largest number of samples: the API's own."""

_LENGTH_BYTES = 8  # safetensors begins with the header's length, little-endian
_PROBE_TOLERANCE_RATIO = 1e-3  # float32 sums differ in their last digits between machines
_MAX_LOG = 60.0
_RANGES: Final[dict[str, tuple[float, float]]] = {
    "idf": (0.0, 100.0),
    "length_mean": (0.0, 100.0),
    "length_std": (1e-4, 100.0),
    "inverse_widths": (0.0, 100.0),
    "support": (-1000.0, 1000.0),
    "support_weights": (-1e6, 1e6),
}


class ArtefactError(ValueError):
    """The artefact is no acceptable model; the message names what is wrong."""


def header(artefact: bytes) -> dict[str, Any]:
    """Return the safetensors header, once its size is known to be harmless."""
    num_bytes = int.from_bytes(artefact[:_LENGTH_BYTES], "little")
    if not 0 < num_bytes <= min(MAX_HEADER_BYTES, len(artefact) - _LENGTH_BYTES):
        raise ArtefactError(f"the header claims {num_bytes} bytes: torn, or not safetensors")
    header = json.loads(artefact[_LENGTH_BYTES : _LENGTH_BYTES + num_bytes])
    if not isinstance(header, dict):
        raise ArtefactError("the header is no JSON object")
    return header


def document(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON document of a format that this release reads."""
    metadata = header.get("__metadata__")
    text = metadata.get(DOCUMENT_KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ArtefactError(f"the metadata holds no {DOCUMENT_KEY!r} document")
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ArtefactError("the document is no JSON object")
    if document.get("format_version") != FORMAT_VERSION:
        raise ArtefactError(
            f"format_version: this release reads {FORMAT_VERSION}, "
            f"got {document.get('format_version')!r:.40}"
        )
    return document


def vocabulary(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the terms, unique and of bounded length."""
    terms = document.get("vocabulary")
    if not isinstance(terms, list) or len(terms) > MAX_TERMS:
        raise ArtefactError(f"vocabulary: must be a list of at most {MAX_TERMS} terms")
    if not all(isinstance(term, str) and 1 <= len(term) <= MAX_TERM_CHARS for term in terms):
        raise ArtefactError(f"vocabulary: a term must have 1 to {MAX_TERM_CHARS} characters")
    if len(set(terms)) != len(terms):
        raise ArtefactError("vocabulary: a term stands twice")
    return tuple(terms)


def kind(document: Mapping[str, Any]) -> ModelKind:
    """Return which kind of model it is."""
    named = document.get("kind")
    for kind in ModelKind:
        if kind == named:
            return kind
    raise ArtefactError(f"kind: must be one of {', '.join(ModelKind)}, got {named!r:.40}")


def expected_shapes(
    header: Mapping[str, Any], kind: ModelKind, num_terms: int
) -> dict[str, tuple[int, ...]]:
    """Return the shapes that the arrays must have.

    The widths of hidden layers and the number of samples in the support are the header's.
    """
    num_lengths = len(LENGTH_FEATURES)
    shapes: dict[str, tuple[int, ...]] = {
        "idf": (num_terms,),
        "length_mean": (num_lengths,),
        "length_std": (num_lengths,),
    }
    if kind is ModelKind.NETWORK:
        return shapes | _network_shapes(header, num_terms + num_lengths)
    num_samples = _count(header, "support_weights", MAX_SUPPORT)
    return shapes | {
        "bias": (1,),
        "term_weights": (num_terms,),
        "length_weights": (num_lengths,),
        "inverse_widths": (num_lengths,),
        "support": (num_samples, num_lengths),
        "support_weights": (num_samples,),
    }


def _network_shapes(header: Mapping[str, Any], num_features: int) -> dict[str, tuple[int, ...]]:
    widths = [num_features]
    widths += [_count(header, f"bias_{index}", MAX_WIDTH) for index in range(NUM_LAYERS - 1)]
    widths.append(1)
    shapes: dict[str, tuple[int, ...]] = {}
    for index in range(NUM_LAYERS):
        shapes[f"weight_{index}"] = (widths[index], widths[index + 1])
        shapes[f"bias_{index}"] = (widths[index + 1],)
    return shapes


def _count(header: Mapping[str, Any], name: str, most: int) -> int:
    """Return how many numbers an array of one dimension claims to have."""
    entry = header.get(name)
    shape = entry.get("shape") if isinstance(entry, dict) else None
    match shape:
        case [int(count)] if 1 <= count <= most:
            return count
    raise ArtefactError(f"{name}: must have from 1 to {most} numbers, got {shape!r:.40}")


def arrays(
    artefact: bytes, header: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, FloatArray]:
    """Return the arrays, which are exactly the expected ones, finite and in range."""
    names = set(header) - {"__metadata__"}
    if names != set(shapes):
        raise ArtefactError(f"arrays: missing or unknown {sorted(names ^ set(shapes))!r:.200}")
    for name, shape in shapes.items():
        entry = header[name]
        if not isinstance(entry, dict) or entry.get("dtype") != "F32":
            raise ArtefactError(f"{name}: must hold 32-bit floats")
        if entry.get("shape") != list(shape):
            raise ArtefactError(
                f"{name}: must have the shape {list(shape)}, got {entry.get('shape')!r:.40}"
            )
    loaded: dict[str, FloatArray] = safetensors.numpy.load(artefact)
    for name, array in loaded.items():
        _check_numbers(name, array)
    return loaded


def _check_numbers(name: str, array: FloatArray) -> None:
    low, high = _RANGES.get(name, (-MAX_WEIGHT, MAX_WEIGHT))
    if not bool(np.all((array >= low) & (array <= high))):  # also false for NaN
        raise ArtefactError(f"{name}: every number must be from {low:g} to {high:g}")


def model(
    document: Mapping[str, Any], vocabulary: tuple[str, ...], arrays: Mapping[str, FloatArray]
) -> TrainedModel:
    """Return the model, every number of it in range."""
    lowest, highest = PREDICTED_RANGE_KVTT
    min_cost_kvtt = _number(document, "min_cost_kvtt", lowest, highest)
    return TrainedModel(
        application=require_application(document.get("application")),
        featuriser=Featuriser(
            vocabulary=vocabulary,
            idf=arrays["idf"],
            length_mean=arrays["length_mean"],
            length_std=arrays["length_std"],
        ),
        regressor=_regressor(kind(document), arrays),
        log_mean=_number(document, "log_mean", -_MAX_LOG, _MAX_LOG),
        log_std=_number(document, "log_std", 0.0, _MAX_LOG),
        min_cost_kvtt=min_cost_kvtt,
        max_cost_kvtt=_number(document, "max_cost_kvtt", min_cost_kvtt, highest),
        left_out_log_sigma=(
            None
            if document.get("left_out_log_sigma") is None
            else _number(document, "left_out_log_sigma", 0.0, _MAX_LOG)
        ),
        metrics=_metrics(document.get("metrics")),
        train_s=_number(document, "train_s", 0.0, 1e9),
    )


def _regressor(kind: ModelKind, arrays: Mapping[str, FloatArray]) -> Regressor:
    if kind is ModelKind.NETWORK:
        return Network(
            weights=tuple(arrays[f"weight_{index}"] for index in range(NUM_LAYERS)),
            biases=tuple(arrays[f"bias_{index}"] for index in range(NUM_LAYERS)),
        )
    names = [field.name for field in fields(GaussianProcess)]
    return GaussianProcess(**{name: arrays[name] for name in names})


def _metrics(values: object) -> TrainingMetrics:
    names = [field.name for field in fields(TrainingMetrics)]
    if not isinstance(values, dict) or sorted(values) != sorted(names):
        raise ArtefactError(f"metrics: must hold exactly {', '.join(names)}")
    for name, value in values.items():
        if name.startswith("num_"):
            if not isinstance(value, int):
                raise ArtefactError(f"{name}: must be a whole number")
            _number(values, name, 0, MAX_COUNT)
        elif value is not None:
            _number(values, name, -1.001, 1e30)
    return TrainingMetrics(**values)


def _number(document: Mapping[str, Any], name: str, low: float, high: float) -> float:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ArtefactError(f"{name}: must be a number from {low:g} to {high:g}, got {value!r:.40}")
    return float(value)


def check_probe(document: Mapping[str, Any], model: TrainedModel) -> None:
    """Refuse a model that does not answer its test prompt as it did when it was written."""
    prompt = document.get("probe_prompt")
    if not isinstance(prompt, str):
        raise ArtefactError("probe_prompt: must be a string")
    expected_kvtt = _number(document, "probe_cost_kvtt", 0.0, math.inf)
    cost_kvtt = model.predict(prompt).cost_kvtt
    if not abs(cost_kvtt - expected_kvtt) <= _PROBE_TOLERANCE_RATIO * expected_kvtt:
        raise ArtefactError(
            f"the model answers its test prompt with {cost_kvtt:g} kvtt, not {expected_kvtt:g}"
        )
