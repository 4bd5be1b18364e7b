import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp
import grpc
import kmock
import pytest
import yaml
from kmock import action
from kmock._internal.k8s import KubernetesObjectConflictError

from justitia.api.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    engine_pb2,
    engine_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
    training_pb2,
    training_pb2_grpc,
)
from justitia.predictor.artefact import to_bytes
from justitia.testing.models import handmade_model
from justitia_scheduler.server import GrpcServer
from justitia_scheduler.service import SchedulerService
from justitia_scheduler.sqlite_store import SqliteStore
from justitia_scheduler.store import SampleRow

GROUP_PATH = "/apis/justitia.dev/v1alpha1"
PLURALS = {
    "LLMApplication": (GROUP_PATH, "llmapplications"),
    "PredictorProfile": (GROUP_PATH, "predictorprofiles"),
    "Service": ("/api/v1", "services"),
    "Job": ("/apis/batch/v1", "jobs"),
    "Event": ("/apis/events.k8s.io/v1", "events"),
}
RESOURCES = {
    "justitia.dev/v1alpha1/llmapplications": ("LLMApplication", {"status"}),
    "justitia.dev/v1alpha1/predictorprofiles": ("PredictorProfile", {"status"}),
    "v1/services": ("Service", {"status"}),
    "v1/pods": ("Pod", {"status"}),
    "v1/events": ("Event", set()),
    "batch/v1/jobs": ("Job", {"status"}),
    "events.k8s.io/v1/events": ("Event", set()),
    "apiextensions.k8s.io/v1/customresourcedefinitions": ("CustomResourceDefinition", {"status"}),
    "v1/namespaces": ("Namespace", {"status"}),
}
VERBS = {"get", "list", "watch", "create", "patch", "update", "delete"}


class ApiServer(kmock.KubernetesEmulator):
    """kmock's API server, with uids, versions, generations, and status as a subresource."""

    def __attrs_post_init__(self):
        super().__attrs_post_init__()
        self.serial = itertools.count(1000)
        self.writes = []
        #: HTTP status of every answer, where the server refuses to work.
        self.refusal = None
        self.num_refused_watches = 0
        #: Whether cluster-wide requests of objects are forbidden.
        self.is_namespaced_only = False
        #: Whether watches are fed nothing any more.
        self.is_silent = False
        for name, (kind, subresources) in RESOURCES.items():
            self.resources[name] = kmock.ResourceInfo(
                kind=kind,
                singular=kind.lower(),
                namespaced=kind not in ("CustomResourceDefinition", "Namespace"),
                verbs=VERBS,
                subresources=subresources,
            )

    async def _handle(self, request):
        has_objects = request.resource is not None and request.resource.plural is not None
        is_clusterwide = has_objects and request.namespace is None
        if self.refusal or (self.is_namespaced_only and is_clusterwide):
            self.num_refused_watches += request.action is action.WATCH
            return aiohttp.web.json_response(
                {"kind": "Status", "code": self.refusal or 403, "message": "forbidden"},
                status=self.refusal or 403,
            )
        if self.is_silent and request.action is action.UPDATE:
            self._buses.clear()  # whoever listens goes on listening to nobody
        if request.resource is not None and request.action in (action.CREATE, action.UPDATE):
            self._stamp(request)
        if request.action in (action.CREATE, action.UPDATE, action.DELETE):
            self.writes.append(
                (request.action, request.resource.plural, request.subresource, request.name)
            )
        return await super()._handle(request)

    async def refuse(self, status):
        """Answer everything with a status from now on, and end the watches that there are."""
        self.refusal = status
        for bus in list(self._buses.values()):
            await bus.put({"type": "MODIFIED", "object": {}})

    async def _serve_watch(self, request):
        async for event in super()._serve_watch(request):
            if self.refusal:
                return
            yield event

    def _stamp(self, request):
        metadata = request.data.setdefault("metadata", {})
        number = next(self.serial)
        metadata["resourceVersion"] = str(number)
        if request.action is action.CREATE:
            metadata.setdefault("uid", f"uid-{number}")
            metadata.setdefault("generation", 1)
            metadata.setdefault("namespace", request.namespace)
            metadata.setdefault("creationTimestamp", "2026-11-30T08:00:00Z")
            return
        key = (request.resource, request.namespace, request.name)
        if key not in self._objects or self._objects[key].deleted:
            return
        old = self._objects[key]
        if metadata.get("uid", old.raw["metadata"]["uid"]) != old.raw["metadata"]["uid"]:
            raise KubernetesObjectConflictError
        if request.subresource is None and "spec" in request.data:
            metadata["generation"] = old.raw["metadata"]["generation"] + 1
        if request.subresource == "status":
            for key in old.raw.get("status", {}):
                request.data["status"].setdefault(key, None)


@dataclass
class Kubectl:
    """What a user does to the API server."""

    url: str
    session: aiohttp.ClientSession
    server: ApiServer
    operator: object = None

    async def create(self, kind, body):
        root, plural = PLURALS[kind]
        namespace = body["metadata"].setdefault("namespace", "team-a")
        path = f"{self.url}{root}/namespaces/{namespace}/{plural}"
        async with self.session.post(path, json=body) as answer:
            assert answer.status < 300, await answer.text()

    async def patch(self, kind, name, body, namespace="team-a", subresource=""):
        root, plural = PLURALS[kind]
        path = f"{self.url}{root}/namespaces/{namespace}/{plural}/{name}{subresource}"
        async with self.session.patch(path, json=body) as answer:
            assert answer.status < 300, await answer.text()

    async def delete(self, kind, name, namespace="team-a"):
        root, plural = PLURALS[kind]
        path = f"{self.url}{root}/namespaces/{namespace}/{plural}/{name}"
        async with self.session.delete(path) as answer:
            assert answer.status < 300, await answer.text()

    def find(self, kind, name, namespace="team-a"):
        root, plural = PLURALS[kind]
        group_version = root.removeprefix("/apis/").removeprefix("/api/")
        key = (kmock.resource(f"{group_version}/{plural}"), namespace, name)
        if key not in self.server.objects or self.server.objects[key].deleted:
            return None
        return self.server.objects[key].raw

    def all(self, kind):
        root, plural = PLURALS[kind]
        group_version = root.removeprefix("/apis/").removeprefix("/api/")
        wanted = kmock.resource(f"{group_version}/{plural}")
        return [
            item.raw
            for (resource, _, _), item in self.server.objects.items()
            if resource == wanted and not item.deleted
        ]

    def conditions(self, kind, name, namespace="team-a"):
        body = self.find(kind, name, namespace) or {}
        listed = (body.get("status") or {}).get("conditions") or []
        return {item["type"]: (item["status"], item["reason"]) for item in listed}

    def status_writes(self):
        return [write for write in self.server.writes if write[2] == "status"]


def llm_application(name="chat", namespace="team-a", **spec):
    spec.setdefault("poolRef", {"name": "llama"})
    return {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "LLMApplication",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def predictor_profile(name="default", namespace="team-a", **spec):
    return {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "PredictorProfile",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def pool_service(name="llama", namespace="team-a", grants=None):
    annotations = {} if grants is None else {"justitia.dev/allowed-namespaces": grants}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {},
    }


@dataclass
class Scheduler:
    """A real scheduler service in this process, that can go and come back at its address."""

    path: object = None
    port: int = 0
    service: SchedulerService = field(default=None, repr=False)
    server: GrpcServer = field(default=None, repr=False)

    async def start(self):
        self.service = SchedulerService(SqliteStore(self.path))
        await self.service.start()
        self.server = GrpcServer(self.service)
        self.port = await self.server.start(f"127.0.0.1:{self.port}")
        self.channel = grpc.aio.insecure_channel(self.address)
        self.admin = admin_pb2_grpc.AdminServiceStub(self.channel)
        self.runs = run_pb2_grpc.RunServiceStub(self.channel)
        self.training = training_pb2_grpc.TrainingServiceStub(self.channel)
        self.engines = engine_pb2_grpc.EngineServiceStub(self.channel)

    async def stop(self):
        await self.channel.close()
        await self.server.drain(0)
        await self.service.stop()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    async def held(self):
        request = admin_pb2.ListApplicationsRequest(all_pools=True)
        answer = await self.admin.ListApplications(request)
        return {(item.pool, item.name): item for item in answer.applications}

    async def declare(self, **fields):
        request = admin_pb2.ApplyApplicationRequest(application=admin_pb2.Application(**fields))
        return await self.admin.ApplyApplication(request)

    async def join(self, pool="team-a/llama", policy="justitia", engine_id="engine-0"):
        """Connect an engine; returns its stream."""
        call = self.engines.Session()
        hello = engine_pb2.Hello(
            pool=pool,
            engine_id=engine_id,
            incarnation="start-1",
            kv_blocks=1000,
            block_size_tokens=16,
            policy=policy,
        )
        await call.write(engine_pb2.EngineMessage(hello=hello))
        await call.read()
        return call

    async def publish(self, application, artefact, pool="team-a/llama"):
        request = training_pb2.PublishModelRequest(
            pool=pool,
            application=application,
            artefact=artefact,
            # Made by hand: no match for the mean of recorded runs.
            activation=training_pb2.ACTIVATION_ALWAYS,
        )
        return await self.training.PublishModel(request)

    async def run_once(self, run_id, *, pool="team-a/llama", application="chat", prompt="hi"):
        request = run_pb2.StartRunRequest(
            pool=pool, application=application, run_id=run_id, prompt_text=prompt
        )
        return await self.runs.StartRun(request)

    def record_samples(self, count, *, pool="team-a/llama", application="chat"):
        parts = self.service.parts(pool)
        parts.pool.changes.samples.extend(
            SampleRow(
                pool=pool,
                application=application,
                run_id=f"sample-{number}",
                prompt_text=f"word{number % 7} question {number}",
                cost_kvtt=1000 + 10 * number,
                num_inferences=2,
                finished_at_s=datetime.now(UTC).timestamp(),
            )
            for number in range(count)
        )


@asynccontextmanager
async def running_scheduler(path=None):
    scheduler = Scheduler(path)
    await scheduler.start()
    yield scheduler
    await scheduler.stop()


@pytest.fixture
async def scheduler():
    async with running_scheduler() as scheduler:
        yield scheduler


@pytest.fixture
async def api_server():
    async with ApiServer() as server, kmock.Server(server):
        yield server


@pytest.fixture
async def kubectl(api_server):
    url = str(api_server.url).rstrip("/")
    async with aiohttp.ClientSession() as session:
        yield Kubectl(url, session, api_server)


@pytest.fixture
def kubeconfig(kubectl, tmp_path, monkeypatch):
    """Points both clients of the API server at the emulated one."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                "clusters": [{"name": "test", "cluster": {"server": kubectl.url}}],
                "users": [{"name": "test", "user": {"token": "t"}}],
            }
        )
    )
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    return path


async def until_true(condition, timeout_s=10.0):
    """Wait until something is so: real servers have no event for it."""
    async with asyncio.timeout(timeout_s):
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)


def stored(body, *, uid="uid-1", generation=1, version="1", **status):
    """Give an object what the API server gives it."""
    metadata = {
        **body["metadata"],
        "uid": uid,
        "generation": generation,
        "resourceVersion": version,
        "creationTimestamp": "2026-11-30T08:00:00Z",
    }
    return {**body, "metadata": metadata, **({"status": status} if status else {})}


def training_job(
    name="chat-12345678-abcdef01",
    *,
    application_uid="uid-1",
    profile_uid="uid-profile",
    trigger="First",
    namespace="team-a",
    uid="uid-job",
    **status,
):
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-30T09:00:00Z",
            "labels": {
                "justitia.dev/application-uid": application_uid,
                "justitia.dev/profile-uid": profile_uid,
                "app.kubernetes.io/managed-by": "justitia-operator",
            },
            "annotations": {
                "justitia.dev/application": "chat",
                "justitia.dev/training-trigger": trigger,
            },
        },
        "status": status,
    }


FAILED_JOB = {
    "startTime": "2026-11-30T09:00:00Z",
    "failed": 3,
    "conditions": [
        {
            "type": "Failed",
            "status": "True",
            "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit",
            "lastTransitionTime": "2026-11-30T09:05:00Z",
        }
    ],
}
DONE_JOB = {
    "startTime": "2026-11-30T09:00:00Z",
    "completionTime": "2026-11-30T09:05:00Z",
    "succeeded": 1,
    "conditions": [{"type": "Complete", "status": "True"}],
}


@pytest.fixture(scope="session")
def artefact():
    """A model of application "chat", as it is published."""
    return to_bytes(handmade_model("chat"))


@pytest.fixture
def until():
    return until_true


@pytest.fixture
def make():
    """Builders of objects, with defaults."""

    class Make:
        application = staticmethod(llm_application)
        profile = staticmethod(predictor_profile)
        service = staticmethod(pool_service)
        stored = staticmethod(stored)
        job = staticmethod(training_job)
        failed_job = FAILED_JOB
        done_job = DONE_JOB

    return Make
