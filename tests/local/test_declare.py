"""From manifests to declarations: what is taken over, what is said to be left out."""

from pathlib import Path

import pytest

from justitia.local.declare import build_application, declare, unhonoured
from justitia.local.errors import LocalModeError
from justitia.local.manifests import read_manifests
from justitia.resources.reading import read_resource

EXAMPLES = Path(__file__).parents[2] / "examples" / "applications"


def application(name="chat", namespace="default", **spec):
    return read_resource(
        {
            "apiVersion": "justitia.dev/v1alpha1",
            "kind": "LLMApplication",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
    )


class Client:
    def __init__(self):
        self.applied = []

    def apply_application(self, declared):
        self.applied.append(declared.name)


def test_an_objective_is_taken_over_with_its_time():
    spec = {"fairness": {"objective": {"maxRatio": "1.25", "for": "10m"}}}
    declared = build_application(application(**spec))
    assert (declared.objective_max_ratio, declared.objective_for_s) == (1.25, 600)
    assert not build_application(application()).HasField("objective_for_s")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"mode": "Shadow"}, "mode Shadow"),
        ({"failureMode": "FailClose"}, "failureMode FailClose"),
        (
            {"identity": {"credentials": [{"secretRef": {"name": "s", "key": "k"}}]}},
            "identity.credentials",
        ),
        ({"poolRef": {"name": "p", "namespace": "gpu"}}, "poolRef.namespace"),
    ],
)
def test_what_has_no_effect_without_a_cluster_is_named(spec, field):
    told = unhonoured([application("a", **spec), application("b")])
    assert told == f"without a cluster these have no effect: {field} (a)"


def test_all_of_the_examples_has_an_effect_where_predictors_are_trained():
    assert unhonoured(read_manifests(EXAMPLES), is_training=True) == ""
    assert unhonoured(read_manifests(EXAMPLES)) == (
        "without a cluster these have no effect: "
        "PredictorProfile, for justitia up and justitia train --profile (default)"
    )
    assert unhonoured([application()]) == ""


def test_a_profile_that_is_not_there_is_named():
    manifests = [application("a", predictor={"profileRef": {"name": "gone"}}), application("b")]
    assert unhonoured(manifests, is_training=True).endswith(
        "predictor.profileRef, there is no such PredictorProfile (a)"
    )


def test_an_application_of_a_pool_without_an_engine_is_named():
    manifests = [application("a", poolRef={"name": "gpu"}), application("b")]
    assert unhonoured(manifests) == ""
    assert unhonoured(manifests, only_pool="default").endswith(
        "poolRef.name, the engine here serves pool default (a)"
    )


def test_two_applications_of_one_name_are_refused_before_any_is_applied():
    client = Client()
    both = [application("other"), application(namespace="a"), application(namespace="b")]
    with pytest.raises(LocalModeError, match="2 applications are named chat"):
        declare(client, both)
    assert client.applied == []
