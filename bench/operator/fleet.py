"""The applications that should be there, and what became of them: seen by a user, held by the
service."""

import asyncio
import time
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
import grpc
from api import GROUP, Api, RefusedError, application_path
from control_plane import OPERATOR_ADDRESS, SERVICE_ADDRESS
from kube.errors import ClusterError
from prometheus_client.parser import text_string_to_metric_families

from justitia.api.v1 import admin_pb2, admin_pb2_grpc
from justitia.client.connection import open_channel

POOL = "llama"
_MANAGER = "bench"
_POLL_S = 0.05
_HELD_POLL_S = 0.25
_SCRAPE_S = 30.0
#: What the server answers while it gets ready for a kind that was defined a moment ago.
_TOO_EARLY = 429


class Wanted(NamedTuple):
    """An application as it was stored last by somebody other than the operator."""

    weight: float
    uid: str
    version: int


class Seen(NamedTuple):
    """What the last event of an application showed."""

    uid: str
    version: int
    is_ready: bool


class Fleet:
    """``wanted``: the applications that there are by (namespace, name)."""

    def __init__(self, api, session, admin):
        self._api = api
        self._session = session
        self._admin = admin
        self.wanted = {}
        self._tasks = []
        self._seen = {}
        #: When an application was Ready for the first time, by uid.
        self.ready_at_s = {}

    @asynccontextmanager
    async def following(self):
        """Watch and scrape meanwhile; whoever waits is told where one of them ends."""
        self._tasks = [asyncio.create_task(each) for each in (self._follow(), self._scrape())]
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _require_following(self):
        for task in self._tasks:
            if task.done():
                raise ClusterError("following the applications failed") from task.exception()

    # -- changing ----------------------------------------------------------------------------------

    async def make_namespace(self, name):
        meta = {"name": name}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        await self._api.send("POST", "/api/v1/namespaces", body)
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": POOL},
            "spec": {"clusterIP": "None", "ports": [{"port": 8000}]},
        }
        await self._api.send("POST", f"/api/v1/namespaces/{name}/services", service)

    async def apply(self, key, weight, *, manager=_MANAGER):
        """Create or edit an application; returns when the request was sent."""
        sent_at_s = time.monotonic()
        body = application(key, weight)
        stored = await self._api.apply(application_path(key), body, manager=manager)
        self._note(key, stored)
        return sent_at_s

    async def delete(self, key):
        """Delete an application; returns when the request was sent."""
        sent_at_s = time.monotonic()
        self.wanted.pop(key, None)
        await self._api.send("DELETE", application_path(key))
        return sent_at_s

    async def read(self, key):
        """Take what there is for what is wanted: others have edited it."""
        self._note(key, await self._api.send("GET", application_path(key)))

    def _note(self, key, stored):
        metadata, weight = stored["metadata"], float(stored["spec"]["weight"])
        self.wanted[key] = Wanted(weight, metadata["uid"], int(metadata["resourceVersion"]))

    # -- what a user sees --------------------------------------------------------------------------

    async def _follow(self):
        """Watch all applications until cancelled."""
        while True:
            try:
                async for event in self._api.watch(f"{GROUP}/llmapplications"):
                    self._take(event["type"], event["object"])
            except RefusedError as error:
                if error.status != _TOO_EARLY:
                    raise
                await asyncio.sleep(_POLL_S)

    def _take(self, kind, body):
        metadata = body["metadata"]
        key = (metadata.get("namespace"), metadata.get("name"))
        if kind == "DELETED":
            self._seen.pop(key, None)
            return
        if kind not in ("ADDED", "MODIFIED"):
            raise ClusterError(f"the watch of the applications says {body}")
        is_ready = _is_ready(body)
        self._seen[key] = Seen(metadata["uid"], int(metadata["resourceVersion"]), is_ready)
        if is_ready:
            self.ready_at_s.setdefault(metadata["uid"], time.monotonic())

    def is_ready(self, key):
        """Whether it is Ready, as it is now."""
        seen, wanted = self._seen.get(key), self.wanted[key]
        is_news = seen is not None and seen.uid == wanted.uid and seen.version >= wanted.version
        return is_news and seen.is_ready

    # -- what the service holds --------------------------------------------------------------------

    async def held(self, namespace=None):
        """Weight and uid of what the service holds by (namespace, name); of one pool, or all."""
        request = admin_pb2.ListApplicationsRequest(all_pools=True)
        if namespace is not None:
            request = admin_pb2.ListApplicationsRequest(pool=f"{namespace}/{POOL}")
        answer = await self._admin.ListApplications(request, timeout=30)
        return {
            (item.pool.partition("/")[0], item.name): (
                item.weight,
                item.declared_by.partition("#")[2],
            )
            for item in answer.applications
            if item.declared_by
        }

    async def _is_held(self):
        wanted = {key: (each.weight, each.uid) for key, each in self.wanted.items()}
        return await self.held() == wanted

    # -- waiting -----------------------------------------------------------------------------------

    async def until(self, what, condition, *, timeout_s=60.0, period_s=_POLL_S):
        """Wait until something is so, or an awaitable says so."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            found = condition()
            if await found if asyncio.iscoroutine(found) else found:
                return
            self._require_following()
            if time.monotonic() > deadline_s:
                raise ClusterError(f"{what}: not within {timeout_s:g} s")
            await asyncio.sleep(period_s)

    async def until_settled(self):
        """Wait until users see every application Ready and the service holds just those."""
        await self.until(
            "all applications are Ready",
            lambda: all(map(self.is_ready, self.wanted)),
            timeout_s=300,
        )
        await self.until(
            "the service holds just these applications",
            self._is_held,
            timeout_s=300,
            period_s=_HELD_POLL_S,
        )

    async def until_service_answers(self):
        await self.until("the scheduler service answers", self._is_service_up)

    async def _is_service_up(self):
        try:
            await self.held()
        except grpc.aio.AioRpcError:
            return False
        return True

    async def until_operator_ready(self):
        await self.until("the operator is ready", self._is_operator_ready, timeout_s=120)

    # -- what the operator says --------------------------------------------------------------------

    async def _is_operator_ready(self):
        try:
            async with self._session.get(f"http://{OPERATOR_ADDRESS}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False

    async def num_looks(self):
        """How often the operator has looked at an application since it was started."""
        async with self._session.get(f"http://{OPERATOR_ADDRESS}/metrics") as answer:
            families = text_string_to_metric_families(await answer.text())
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "justitia_operator_reconciles_total"
            and sample.labels == {"kind": "LLMApplication", "result": "done"}
        )

    async def _scrape(self):
        """Play Prometheus until cancelled."""
        while True:
            await asyncio.sleep(_SCRAPE_S)
            try:
                await self.num_looks()
            except aiohttp.ClientError:
                continue  # it is being started


def application(key, weight):
    namespace, name = key
    return {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "LLMApplication",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "poolRef": {"name": POOL},
            "weight": weight,
            "fairness": {"objective": {"maxRatio": "1.5"}},
        },
    }


def _is_ready(body):
    generation = body["metadata"]["generation"]
    listed = body.get("status", {}).get("conditions") or ()
    return any(
        each["type"] == "Ready"
        and each["status"] == "True"
        and each.get("observedGeneration") == generation
        for each in listed
    )


@asynccontextmanager
async def connected(plane):
    """Connect to the API server, the operator and the service."""
    channel = open_channel(SERVICE_ADDRESS, None, is_async=True)
    try:
        async with Api(plane.kubeconfig) as api, aiohttp.ClientSession() as session:
            fleet = Fleet(api, session, admin_pb2_grpc.AdminServiceStub(channel))
            async with fleet.following():
                yield api, fleet
    finally:
        await channel.close()
