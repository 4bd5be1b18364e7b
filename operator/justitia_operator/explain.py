"""Why a training Job has not started or has failed, from its pods and events. Pure.

Job conditions say "BackoffLimitExceeded"; what a user needs is "unschedulable: no node has a GPU",
the quota's name, or the last words of the container.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

Body = Mapping[str, Any]

#: Reasons of waiting containers that are ordinary beginnings.
_ORDINARY: Final = ("ContainerCreating", "PodInitializing")
#: The kubelet says these in turn, and a status must not follow it.
_SAME: Final = {"ErrImagePull": "ImagePullBackOff"}
_MAX_CHARS: Final = 500


def why(pods: Iterable[Body], events: Iterable[Body]) -> str:
    """Say why; empty where nothing is known. The newest pod's own words come first."""
    newest = sorted(pods, key=lambda pod: str(_metadata(pod).get("creationTimestamp", "")))
    for pod in reversed(newest):
        said = _container(pod) or _scheduling(pod)
        if said:
            return said[:_MAX_CHARS]
    return _failed_create(events)[:_MAX_CHARS]


def _container(pod: Body) -> str:
    for status in pod.get("status", {}).get("containerStatuses") or ():
        for state in (status.get("state") or {}, status.get("lastState") or {}):
            ended, waiting = state.get("terminated"), state.get("waiting")
            if ended and ended.get("exitCode"):
                last = str(ended.get("message") or "").strip().splitlines()
                words = last[-1] if last else f"exit code {ended['exitCode']}"
                return f"{ended.get('reason', 'Error')}: {words}"
            if waiting and waiting.get("reason") not in (None, *_ORDINARY):
                reason = _SAME.get(waiting["reason"], waiting["reason"])
                return f"{reason}: {status.get('image', '')}".rstrip(": ")
    return ""


def _scheduling(pod: Body) -> str:
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason', 'Unschedulable')}: {condition.get('message', '')}"
    return ""


def _failed_create(events: Iterable[Body]) -> str:
    """Find why the Job could make no pod at all: quotas, pod security, a broken webhook."""
    told = [event for event in events if event.get("reason") == "FailedCreate"]
    told.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    return f"FailedCreate: {told[-1].get('message') or told[-1].get('note') or ''}" if told else ""


def _metadata(body: Body) -> Body:
    found = body.get("metadata")
    return found if isinstance(found, Mapping) else {}
