"""The API server's side: reads for comparisons, writes of statuses, Jobs and events.

The official client blocks, so every call runs in a thread. Statuses go out by server-side apply
under our own field manager, with the object's uid: a recreated object is never given the status of
the one before it, and what others keep in a status stays theirs. Jobs are created once and never
changed, since their templates cannot be.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import structlog
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from justitia_operator.explain import why
from justitia_operator.facts import API_VERSION, GROUP, VERSION, Key, Kind, Meta
from justitia_operator.gather import Body, key_of
from justitia_operator.manifests import FIELD_MANAGER, MANAGED_BY

T = TypeVar("T")

_THREADS: Final = 8
#: Seconds to connect, and to wait for the next bytes.
_TIMEOUT_S: Final = (3.0, 10.0)
_PAGE: Final = 500
_METADATA_ONLY: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)
_APPLY: Final = "application/apply-patch+yaml"
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_MANAGED: Final = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())

_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
#: Where the objects of a kind are.
PATHS: Final = {
    Kind.APPLICATION: (f"apis/{GROUP}/{VERSION}", "llmapplications"),
    Kind.PROFILE: (f"apis/{GROUP}/{VERSION}", "predictorprofiles"),
    Kind.SERVICE: ("api/v1", "services"),
    Kind.JOB: ("apis/batch/v1", "jobs"),
}

_log = structlog.get_logger()


class ClusterError(Exception):
    """A call to the API server failed. ``status`` 0: it was not reached."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_gone(self) -> bool:
        """Whether the object is not there any more, or is another one of the same name."""
        return self.status in (_NOT_FOUND, _CONFLICT)


class Cluster(Protocol):
    """What the operator needs of the API server."""

    async def versions(self, kind: Kind) -> dict[Key, tuple[str, str]]:
        """List (uid, resourceVersion) of all objects of a kind that are served."""

    async def get(self, kind: Kind, key: Key) -> Body | None:
        """Read one object; None: there is none."""

    async def apply_status(self, kind: Kind, meta: Meta, status: Body) -> None:
        """Write the status of an object, this very one."""

    async def create_job(self, job: Body) -> bool:
        """Create a Job; False: there is one of this name."""

    async def delete_job(self, meta: Meta) -> None:
        """Delete a Job with its pods; one that is gone is gone already."""

    async def post_event(self, event: Body) -> None:
        """Post an event; one of the same name was posted already."""

    async def explain_job(self, meta: Meta) -> str:
        """Say why a Job does not start or has failed; empty where nothing is known."""


def load_client() -> client.ApiClient:
    """Find the API server as kubectl does: the pod's account, else the kubeconfig.

    Raises:
        ClusterError: there is neither.
    """
    settings = client.Configuration()
    settings.connection_pool_maxsize = _THREADS
    try:
        if _ACCOUNT.exists():
            config.load_incluster_config(client_configuration=settings)
        else:
            config.load_kube_config(client_configuration=settings)
    except config.ConfigException as error:
        raise ClusterError(0, f"no cluster: {error}; set KUBECONFIG or run in a pod") from error
    return client.ApiClient(settings)


class KubernetesCluster:
    """See ``Cluster``. ``namespaces`` empty: the whole cluster."""

    def __init__(self, api: client.ApiClient, namespaces: tuple[str, ...] = ()) -> None:
        self._api = api
        self._namespaces = namespaces
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="cluster")

    def close(self) -> None:
        """Drop what has not begun; what runs ends by its timeout."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def versions(self, kind: Kind) -> dict[Key, tuple[str, str]]:
        """List (uid, resourceVersion) of all objects of a kind that are served."""
        return await self._off_loop(lambda: dict(self._list(kind)))

    async def get(self, kind: Kind, key: Key) -> Body | None:
        """Read one object; None: there is none."""
        path = _object_path(kind, key)
        try:
            return await self._off_loop(lambda: self._call("GET", path))
        except ClusterError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def apply_status(self, kind: Kind, meta: Meta, status: Body) -> None:
        """Write the status of an object, this very one."""
        body = {
            "apiVersion": API_VERSION,
            "kind": kind.value,
            "metadata": {"name": meta.key.name, "namespace": meta.key.namespace, "uid": meta.uid},
            "status": status,
        }
        path = f"{_object_path(kind, meta.key)}/status"
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        await self._off_loop(lambda: self._call("PATCH", path, query, body, content_type=_APPLY))

    async def create_job(self, job: Body) -> bool:
        """Create a Job; False: there is one of this name."""
        path = _list_path(Kind.JOB, job["metadata"]["namespace"])
        return await self._create(path, job)

    async def delete_job(self, meta: Meta) -> None:
        """Delete a Job with its pods; one that is gone is gone already."""
        body = {"propagationPolicy": "Background", "preconditions": {"uid": meta.uid}}
        path = _object_path(Kind.JOB, meta.key)
        try:
            await self._off_loop(lambda: self._call("DELETE", path, body=body))
        except ClusterError as error:
            if not error.is_gone:
                raise

    async def post_event(self, event: Body) -> None:
        """Post an event; one of the same name was posted already."""
        namespace = event["metadata"]["namespace"]
        await self._create(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event)

    async def explain_job(self, meta: Meta) -> str:
        """Say why a Job does not start or has failed; empty where nothing is known."""
        namespace = f"/api/v1/namespaces/{meta.key.namespace}"
        of_job = {"labelSelector": f"batch.kubernetes.io/job-name={meta.key.name}"}
        about_job = {"fieldSelector": f"involvedObject.uid={meta.uid}"}

        def read() -> str:
            pods = self._call("GET", f"{namespace}/pods", of_job).get("items") or ()
            events = self._call("GET", f"{namespace}/events", about_job).get("items") or ()
            return why(pods, events)

        try:
            return await self._off_loop(read)
        except ClusterError as error:
            _log.info("a Job cannot be looked into", job=str(meta.key), error=str(error))
            return ""

    async def _create(self, path: str, body: Body) -> bool:
        query = {"fieldManager": FIELD_MANAGER}
        try:
            await self._off_loop(lambda: self._call("POST", path, query, body))
        except ClusterError as error:
            if error.status == _CONFLICT:
                return False
            raise
        return True

    def _list(self, kind: Kind) -> Iterator[tuple[Key, tuple[str, str]]]:
        for namespace in self._namespaces or (None,):
            for item in self._items(kind, namespace):
                metadata = item.get("metadata", {})
                version = str(metadata.get("resourceVersion", ""))
                yield key_of(item), (str(metadata.get("uid", "")), version)

    def _items(self, kind: Kind, namespace: str | None) -> Iterator[Body]:
        query = {"limit": str(_PAGE)}
        if kind is Kind.JOB:
            query["labelSelector"] = _MANAGED
        while True:
            page = self._call("GET", _list_path(kind, namespace), query, accept=_METADATA_ONLY)
            yield from page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            query["continue"] = token

    async def _off_loop(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Body | None = None,
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        headers = {"Accept": accept, "Content-Type": content_type}
        try:
            request = self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            response = self._api.call_api(*request, _request_timeout=_TIMEOUT_S)
            text = response.read()
        except (ApiException, HTTPError, OSError) as error:
            status = getattr(error, "status", 0) or 0
            raise ClusterError(int(status), f"{method} {path}: {error}") from error
        if response.status >= 400:  # noqa: PLR2004  where HTTP's errors begin
            raise ClusterError(response.status, f"{method} {path}: {_told(text)}")
        parsed = json.loads(text) if text else {}
        return parsed if isinstance(parsed, dict) else {}


def _list_path(kind: Kind, namespace: str | None) -> str:
    root, plural = PATHS[kind]
    return f"/{root}/{plural}" if namespace is None else f"/{root}/namespaces/{namespace}/{plural}"


def _object_path(kind: Kind, key: Key) -> str:
    return f"{_list_path(kind, key.namespace)}/{key.name}"


def _told(text: bytes) -> str:
    """Find the API server's own sentence."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200].decode(errors="replace")
