import json
import math
import os
import random
import struct
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy

from justitia.core.limits import MAX_ARTEFACT_BYTES
from justitia.predictor import artefact, artefact_checks
from justitia.predictor.artefact import ArtefactError, from_bytes, load, save, to_bytes
from justitia.predictor.features import LENGTH_FEATURES, MAX_TERM_CHARS
from justitia.predictor.gaussian_process import MAX_SUPPORT, constant_process
from justitia.predictor.network import constant_network, layer_widths
from justitia.predictor.regressor import ModelKind
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import train


def parts_of(blob):
    """Split an artefact into its document and its arrays."""
    (length,) = struct.unpack("<Q", blob[:8])
    document = json.loads(json.loads(blob[8 : 8 + length])["__metadata__"]["justitia"])
    return document, safetensors.numpy.load(blob)


def joined(document, arrays):
    return safetensors.numpy.save(arrays, metadata={"justitia": json.dumps(document)})


def resealed(document, arrays):
    """Join the parts with the version that they should have: what a careful attacker would do."""
    vocabulary = tuple(document["vocabulary"])
    model = artefact_checks.model(document, vocabulary, arrays)
    document = document | {"version": model.version}
    return joined(document, arrays)


@pytest.fixture(scope="module")
def blob(small_model):
    return to_bytes(small_model)


@pytest.fixture(scope="module")
def blobs(make_samples):
    """An artefact of each kind."""
    few = TrainingSettings(hidden_widths=(8, 8, 4), max_terms=200, selected_terms=30, max_steps=30)
    return {
        kind: to_bytes(train(make_samples(30), settings=replace(few, kind=kind)))
        for kind in ModelKind
    }


def test_a_model_comes_back_the_same(small_model, blob, make_samples):
    loaded = from_bytes(blob, application="summarise")
    assert loaded.version == small_model.version
    assert loaded.metrics == small_model.metrics
    assert loaded.train_s == small_model.train_s
    for sample in make_samples(20, seed=3):
        assert loaded.predict(sample.prompt) == small_model.predict(sample.prompt)
    assert to_bytes(loaded) == blob


def test_the_resealing_of_these_tests_is_accepted(blob):
    document, arrays = parts_of(blob)
    from_bytes(resealed(document, arrays))


def test_the_version_is_a_digest_of_all_that_predicts(small_model):
    changed = [
        replace(small_model, application="other"),
        replace(small_model, log_mean=small_model.log_mean + 1e-9),
        replace(small_model, max_cost_kvtt=small_model.max_cost_kvtt * 2),
        replace(small_model, metrics=replace(small_model.metrics, num_dropped=1)),
        replace(
            small_model,
            featuriser=replace(small_model.featuriser, idf=small_model.featuriser.idf * 1.01),
        ),
    ]
    versions = {small_model.version, *(model.version for model in changed)}
    assert len(versions) == 1 + len(changed)
    assert replace(small_model, train_s=99.0).version == small_model.version


@pytest.mark.parametrize("application", ["team/app", "../../etc/passwd", ".", "ä" * 500, "\ud800"])
def test_a_file_keeps_any_application_inside_its_directory(tmp_path, small_model, application):
    (tmp_path / "models").mkdir()
    path = save(replace(small_model, application=application), tmp_path / "models")
    assert path.parent == tmp_path / "models"
    assert [entry.name for entry in (tmp_path / "models").iterdir()] == [path.name]
    assert [entry.name for entry in tmp_path.iterdir()] == ["models"]
    assert load(path, application=application).application == application


def test_different_applications_have_different_files():
    names = ["a/b", "a_b", "a%2Fb", "A/b", "x" * 400, "x" * 401]
    assert len({artefact.file_name(name) for name in names}) == len(names)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path, small_model, blob, monkeypatch
):
    path = save(small_model, tmp_path)

    def full_disk(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save(replace(small_model, log_std=0.5), tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == blob


def test_a_link_to_a_model_is_followed(tmp_path, small_model):
    path = save(small_model, tmp_path)
    (tmp_path / "link").symlink_to(path)
    assert load(tmp_path / "link").version == small_model.version


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ArtefactError, match="not a regular file"):
            load(path)


def test_a_model_for_another_application_is_refused(blob):
    with pytest.raises(ArtefactError, match="'summarise', not for 'vote'"):
        from_bytes(blob, application="vote")


def test_an_oversized_artefact_is_refused_before_it_is_read(tmp_path, monkeypatch, blob):
    monkeypatch.setattr(artefact, "MAX_ARTEFACT_BYTES", len(blob) - 1)
    (tmp_path / "large").write_bytes(blob)
    with pytest.raises(ArtefactError, match="larger than"):
        load(tmp_path / "large")


def test_every_cut_is_refused(blob):
    rng = random.Random(0)
    for end in [0, 1, 7, 8, 9, len(blob) - 1, *(rng.randrange(len(blob)) for _ in range(40))]:
        with pytest.raises(ArtefactError):
            from_bytes(blob[:end])
    with pytest.raises(ArtefactError):
        from_bytes(blob + b"\0")


def test_every_flipped_bit_is_refused_or_harmless(blob):
    rng = random.Random(0)
    version = from_bytes(blob).version
    num_refused = 0
    for _ in range(150):
        position = rng.randrange(len(blob))
        damaged = bytearray(blob)
        damaged[position] ^= 1 << rng.randrange(8)
        try:
            # What survives lies outside of what predicts: `train_s`, or a word of the test prompt
            # that the model does not read.
            assert from_bytes(bytes(damaged)).version == version
        except ArtefactError:
            num_refused += 1
    assert num_refused >= 130


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x80\x04\x95garbage", id="pickle"),
        pytest.param(struct.pack("<Q", 2**63) + b"{}", id="header of exabytes"),
        pytest.param(struct.pack("<Q", 2) + b"[]", id="header of another type"),
        pytest.param(struct.pack("<Q", 2) + b"{}", id="empty header"),
        pytest.param(struct.pack("<Q", 100_000) + b"[" * 100_000, id="header nested too deep"),
        pytest.param(
            safetensors.numpy.save({"a": np.zeros(1, dtype=np.float32)}), id="foreign safetensors"
        ),
        pytest.param(
            safetensors.numpy.save({}, metadata={"justitia": "[1]"}), id="document of another type"
        ),
    ],
)
def test_what_is_no_artefact_is_refused(content):
    with pytest.raises(ArtefactError):
        from_bytes(content)


DOCUMENT_FAULTS = [
    ("format_version", 1, "format_version"),
    ("format_version", None, "format_version"),
    ("version", "0" * 32, "version"),
    ("kind", None, "kind: must be one of gaussian-process, network"),
    ("kind", ["network"], "kind"),
    ("left_out_log_sigma", -1, "left_out_log_sigma"),
    ("left_out_log_sigma", math.nan, "left_out_log_sigma"),
    ("application", "", "application"),
    ("application", 7, "application"),
    ("application", "a" * 10_000, "application"),
    ("vocabulary", None, "vocabulary"),
    ("vocabulary", ["a"] * 9000, "vocabulary"),
    ("vocabulary", ["a", "a"], "stands twice"),
    ("vocabulary", ["a" * 100], "vocabulary"),
    ("vocabulary", [["a"]], "vocabulary"),
    ("vocabulary", ["one", "word"], "must have the shape"),
    ("log_mean", math.nan, "log_mean"),
    ("log_mean", "7", "log_mean"),
    ("log_std", -1, "log_std"),
    ("log_std", 1e9, "log_std"),
    ("min_cost_kvtt", 0, "min_cost_kvtt"),
    ("min_cost_kvtt", 1e30, "min_cost_kvtt"),
    ("max_cost_kvtt", 1e-5, "max_cost_kvtt"),
    ("max_cost_kvtt", math.inf, "max_cost_kvtt"),
    ("metrics", None, "metrics"),
    ("metrics", {}, "metrics"),
    ("train_s", -1, "train_s"),
    ("train_s", True, "train_s"),
    ("probe_prompt", None, "probe_prompt"),
    ("probe_prompt", "another text, longer than the other one " * 100, "test prompt"),
    ("probe_cost_kvtt", math.nan, "probe_cost_kvtt"),
    ("probe_cost_kvtt", 1.0, "test prompt"),
]


@pytest.mark.parametrize(
    ("field", "value", "named"),
    DOCUMENT_FAULTS,
    ids=[f"{f}-{n}" for n, (f, *_) in enumerate(DOCUMENT_FAULTS)],
)
def test_a_fault_in_the_document_is_named(blob, field, value, named):
    document, arrays = parts_of(blob)
    with pytest.raises(ArtefactError, match=named):
        from_bytes(joined(document | {field: value}, arrays))


@pytest.mark.parametrize("value", [-1, 0.5, "7", None, True, 1e99])
def test_a_fault_in_the_metrics_is_named(blob, value):
    document, arrays = parts_of(blob)
    metrics = document["metrics"] | {"num_samples": value}
    with pytest.raises(ArtefactError, match="num_samples"):
        from_bytes(joined(document | {"metrics": metrics}, arrays))


def changed(array, value):
    array = array.copy()
    array.flat[0] = value
    return array


NETWORK_FAULTS = [
    pytest.param("weight_0", lambda a: changed(a, math.nan), "weight_0", id="nan weight"),
    pytest.param("weight_2", lambda a: changed(a, math.inf), "weight_2", id="infinite weight"),
    pytest.param("bias_3", lambda a: changed(a, 1e9), "bias_3", id="absurd bias"),
    pytest.param("weight_2", lambda a: a.T.copy(), "weight_2", id="transposed"),
    pytest.param("weight_1", lambda a: a[:-1].copy(), "weight_1", id="row missing"),
    pytest.param("bias_3", lambda _: np.zeros(2, np.float32), "bias_3", id="two outputs"),
    pytest.param("bias_0", lambda _: np.zeros(0, np.float32), "bias_0", id="no width"),
    pytest.param("bias_0", lambda _: np.zeros(513, np.float32), "bias_0", id="too wide"),
    pytest.param("bias_0", lambda _: np.zeros((8, 1), np.float32), "bias_0", id="two dimensions"),
    pytest.param("weight_0", lambda a: a.astype(np.float64), "weight_0", id="64-bit"),
    pytest.param("weight_0", lambda a: a.astype(np.int32), "weight_0", id="integers"),
]


PROCESS_FAULTS = [
    pytest.param("bias", lambda _: np.zeros(2, np.float32), "bias", id="two outputs"),
    pytest.param("term_weights", lambda a: a[:-1].copy(), "term_weights", id="term missing"),
    pytest.param("length_weights", lambda a: changed(a, math.inf), "length_weights", id="infinite"),
    pytest.param("inverse_widths", lambda a: changed(a, -1), "inverse_widths", id="negative width"),
    pytest.param("support", lambda a: a.T.copy(), "support", id="transposed support"),
    pytest.param("support", lambda a: changed(a, 1e9), "support", id="support far away"),
    pytest.param("support", lambda a: a[:-1].copy(), "support", id="sample missing"),
    pytest.param("support_weights", lambda a: changed(a, math.nan), "support_weights", id="nan"),
    pytest.param(
        "support_weights",
        lambda _: np.zeros(MAX_SUPPORT + 1, np.float32),
        "support_weights: must have from 1 to 512",
        id="too much support",
    ),
    pytest.param("support_weights", lambda a: a[:0].copy(), "support_weights", id="no support"),
]
COMMON_FAULTS = [
    pytest.param("idf", lambda a: changed(a, -1), "idf", id="negative idf"),
    pytest.param("length_std", lambda a: changed(a, 0), "length_std", id="zero deviation"),
    pytest.param("length_mean", lambda a: changed(a, math.nan), "length_mean", id="nan mean"),
]


def assert_refused(blob, name, fault, named):
    document, arrays = parts_of(blob)
    arrays[name] = fault(arrays[name])
    with pytest.raises(ArtefactError, match=named):
        from_bytes(joined(document, arrays))


@pytest.mark.parametrize(("name", "fault", "named"), [*COMMON_FAULTS, *NETWORK_FAULTS])
def test_a_fault_in_an_array_of_a_network_is_named(blobs, name, fault, named):
    assert_refused(blobs[ModelKind.NETWORK], name, fault, named)


@pytest.mark.parametrize(("name", "fault", "named"), [*COMMON_FAULTS, *PROCESS_FAULTS])
def test_a_fault_in_an_array_of_a_process_is_named(blobs, name, fault, named):
    assert_refused(blobs[ModelKind.GAUSSIAN_PROCESS], name, fault, named)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ModelKind.NETWORK, "weight_3"),
        (ModelKind.NETWORK, "idf"),
        (ModelKind.GAUSSIAN_PROCESS, "support"),
        (ModelKind.GAUSSIAN_PROCESS, "bias"),
    ],
)
def test_a_missing_array_is_named(blobs, kind, name):
    document, arrays = parts_of(blobs[kind])
    del arrays[name]
    with pytest.raises(ArtefactError, match=name):
        from_bytes(joined(document, arrays))


def test_a_model_that_claims_to_be_of_the_other_kind_is_refused(blobs):
    network, process = ModelKind
    for kind, claimed in ((network, process), (process, network)):
        document, arrays = parts_of(blobs[kind])
        with pytest.raises(ArtefactError):
            from_bytes(joined(document | {"kind": claimed}, arrays))


def test_an_extra_layer_is_refused(blobs):
    document, arrays = parts_of(blobs[ModelKind.NETWORK])
    arrays["weight_4"] = np.zeros((1, 1), np.float32)
    with pytest.raises(ArtefactError, match="weight_4"):
        from_bytes(joined(document, arrays))


@pytest.mark.parametrize(
    ("kind", "name"), [(ModelKind.NETWORK, "bias_3"), (ModelKind.GAUSSIAN_PROCESS, "bias")]
)
def test_a_model_that_answers_its_test_prompt_differently_is_refused(blobs, kind, name):
    document, arrays = parts_of(blobs[kind])
    arrays[name] = arrays[name] + np.float32(0.1)
    with pytest.raises(ArtefactError, match="answers its test prompt"):
        from_bytes(resealed(document, arrays))


@pytest.mark.parametrize("kind", ModelKind)
def test_the_largest_accepted_weights_still_give_finite_predictions(blobs, kind):
    document, arrays = parts_of(blobs[kind])
    for name in arrays:
        if name.startswith(("weight", "bias", "term_weights", "length_weights")):
            arrays[name] = np.full_like(arrays[name], artefact_checks.MAX_WEIGHT)
        elif name == "support_weights":
            arrays[name] = np.full_like(arrays[name], 1e6)
    document = document | {"probe_cost_kvtt": document["max_cost_kvtt"]}
    model = from_bytes(resealed(document, arrays))
    assert model.predict("scheduler memory token").cost_kvtt == pytest.approx(model.max_cost_kvtt)


def test_the_test_prompt_quotes_no_prompt(accurate_model, make_samples):
    probe = set(accurate_model.probe_prompt.splitlines())
    assert 50 < len(probe) < 300
    assert not any(sample.prompt in accurate_model.probe_prompt for sample in make_samples(100))


def test_a_model_without_a_vocabulary_can_be_stored(make_samples, fast_settings):
    samples = [replace(s, prompt="?" * i) for i, s in enumerate(make_samples(20))]
    model = train(samples, settings=fast_settings)
    assert from_bytes(to_bytes(model)).predict("").is_unknown


def test_the_largest_model_that_the_settings_allow_can_be_sent_and_read(small_model):
    """Eight thousand terms of the longest kind, in letters that JSON writes the longest way."""
    num_terms, widths = 8192, (512, 512, 512)
    vocabulary = tuple(f"{index:05d}".ljust(MAX_TERM_CHARS, "\u00e9") for index in range(num_terms))
    featuriser = replace(
        small_model.featuriser, vocabulary=vocabulary, idf=np.ones(num_terms, dtype=np.float32)
    )
    process = replace(
        constant_process(num_terms),
        support=np.zeros((MAX_SUPPORT, len(LENGTH_FEATURES)), dtype=np.float32),
        support_weights=np.zeros(MAX_SUPPORT, dtype=np.float32),
    )
    network = constant_network(layer_widths(featuriser.num_features, widths))
    for regressor in (network, process):
        blob = to_bytes(replace(small_model, featuriser=featuriser, regressor=regressor))
        assert len(blob) <= MAX_ARTEFACT_BYTES
        assert from_bytes(blob).featuriser.vocabulary == vocabulary
