"""Why a Job does not start or has failed, from pods and events as the API server shows them."""

import pytest

from justitia_operator.explain import why


def pod(name="p", created="1", **status):
    return {"metadata": {"name": name, "creationTimestamp": created}, "status": status}


def waiting(reason, message=""):
    state = {"waiting": {"reason": reason, "message": message}}
    return {"name": "trainer", "image": "example.com/trainer:1", "state": state}


def ended(message, code=1, reason="Error"):
    terminated = {"exitCode": code, "reason": reason, "message": message}
    return {"name": "trainer", "state": {"terminated": terminated}}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
}


@pytest.mark.parametrize(
    ("pods", "events", "expected"),
    [
        pytest.param([], [], "", id="nothing is known"),
        pytest.param(
            [pod(containerStatuses=[waiting("ContainerCreating")])], [], "", id="starting"
        ),
        pytest.param(
            [pod(conditions=[UNSCHEDULABLE])],
            [],
            "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            id="no node fits",
        ),
        pytest.param(
            [pod(containerStatuses=[waiting("ImagePullBackOff", "back-off 40s")])],
            [],
            "ImagePullBackOff: example.com/trainer:1",
            id="no image",
        ),
        pytest.param(
            [pod(containerStatuses=[waiting("ErrImagePull", "rpc error")])],
            [],
            "ImagePullBackOff: example.com/trainer:1",
            id="no image, said in the other way",
        ),
        pytest.param(
            [pod(containerStatuses=[ended("trace\n  more\nno samples to train from\n")])],
            [],
            "Error: no samples to train from",
            id="last words of the container",
        ),
        pytest.param(
            [pod(containerStatuses=[ended("", 137, "OOMKilled")])],
            [],
            "OOMKilled: exit code 137",
            id="killed for memory",
        ),
        pytest.param(
            [
                pod(created="1", containerStatuses=[ended("first")]),
                pod(created="2", containerStatuses=[ended("second")]),
            ],
            [],
            "Error: second",
            id="the newest pod",
        ),
        pytest.param(
            [],
            [
                {"reason": "FailedCreate", "lastTimestamp": "1", "message": "old"},
                {"reason": "FailedCreate", "lastTimestamp": "2", "message": "exceeded quota: team"},
                {"reason": "Other", "lastTimestamp": "3", "message": "x"},
            ],
            "FailedCreate: exceeded quota: team",
            id="no pod may be made",
        ),
    ],
)
def test_why(pods, events, expected):
    assert why(pods, events) == expected


def test_it_is_bounded():
    assert len(why([pod(containerStatuses=[ended("x" * 5000)])], [])) == 500
