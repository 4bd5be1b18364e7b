"""The whole operator in this process: kopf and the official client against an emulated API server,
and a real scheduler service over gRPC."""

import asyncio
import getpass
import json
import os
import signal
import sys
import threading
from datetime import datetime

import aiohttp
import pytest
from kmock import action
from prometheus_client.parser import text_string_to_metric_families

from justitia_operator.process import Process
from justitia_operator.settings import read_settings


class Operator:
    """One operator in a thread of its own: kopf ends every task of its loop when it leaves."""

    def __init__(self, settings):
        self.settings = settings
        self.process = None
        self.begun = threading.Event()
        self.error = None
        self.thread = threading.Thread(target=self._run, name="operator")
        self.thread.start()

    def _run(self):
        async def run():
            self.process = Process(self.settings)
            await self.process.run()

        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001  the test wants to see it
            self.error = error

    @property
    def is_begun(self):
        if self.error is not None:
            raise self.error
        return self.process is not None and self.process._comparison._begun.is_set()

    def metric(self, name, **labels):
        return self.process.metrics.registry.get_sample_value(name, labels or None)

    def stop(self):
        if self.thread.is_alive():
            self.process.stop()
        self.thread.join(10)
        assert not self.thread.is_alive(), "the operator did not leave"


@pytest.fixture
async def start_operator(kubeconfig, scheduler, until):
    assert kubeconfig.exists()
    started = []

    async def start(*flags):
        flags = [
            f"--scheduler-address={scheduler.address}",
            "--http-address=127.0.0.1:0",
            "--resync-s=1",
            *flags,
        ]
        operator = Operator(read_settings(flags, {}))
        started.append(operator)
        await until(lambda: operator.is_begun)
        return operator

    yield start
    for operator in started:
        await asyncio.to_thread(operator.stop)


async def test_an_application_becomes_ready_and_leaves(
    start_operator, kubectl, scheduler, make, until
):
    await kubectl.create("Service", make.service())
    await start_operator()
    await kubectl.create("LLMApplication", make.application(weight=2))
    await until(lambda: kubectl.conditions("LLMApplication", "chat").get("Ready"))
    assert kubectl.conditions("LLMApplication", "chat")["Ready"] == ("True", "Programmed")
    held = await scheduler.held()
    assert held["team-a/llama", "chat"].weight == 2
    await kubectl.delete("LLMApplication", "chat")

    async def is_gone():
        return not await scheduler.held()

    await until(is_gone)


async def test_fk11_a_user_id_without_a_name_is_enough(
    start_operator, kubectl, make, until, monkeypatch
):
    def has_no_name():
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr(getpass, "getuser", has_no_name)
    await kubectl.create("Service", make.service())
    await start_operator()
    await kubectl.create("LLMApplication", make.application())
    await until(lambda: kubectl.conditions("LLMApplication", "chat").get("Ready"))


async def test_fk1_nothing_of_the_operators_is_kept_on_the_users_objects(
    start_operator, kubectl, make, until
):
    await kubectl.create("Service", make.service())
    await start_operator()
    await kubectl.create("PredictorProfile", make.profile())
    spec = {"predictor": {"profileRef": {"name": "default"}}, "weight": 2}
    await kubectl.create("LLMApplication", make.application(**spec))
    await until(lambda: kubectl.conditions("LLMApplication", "chat").get("Ready"))
    await until(lambda: kubectl.conditions("PredictorProfile", "default").get("Ready"))
    for kind, name in (("LLMApplication", "chat"), ("PredictorProfile", "default")):
        metadata = kubectl.find(kind, name)["metadata"]
        assert not metadata.get("annotations")
        assert not metadata.get("finalizers")
        assert not metadata.get("labels")
    assert kubectl.find("LLMApplication", "chat")["spec"] == make.application(**spec)["spec"]
    updates = [write for write in kubectl.server.writes if write[0] is action.UPDATE]
    writes = {(plural, subresource) for _, plural, subresource, _ in updates}
    assert writes == {("llmapplications", "status"), ("predictorprofiles", "status")}


async def test_fk9_statuses_are_applied_server_side_under_our_own_field_manager(
    start_operator, kubectl, make, until
):
    await kubectl.create("Service", make.service())
    await start_operator()
    await kubectl.create("LLMApplication", make.application())
    await until(lambda: kubectl.conditions("LLMApplication", "chat").get("Ready"))
    request = next(each for each in kubectl.server if each.action is action.UPDATE)
    assert request.params["fieldManager"] == "justitia-operator"
    assert request.params["force"] == "true"
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert request.data["metadata"].keys() <= {"name", "namespace", "uid", "resourceVersion"}
    assert "spec" not in request.data


async def test_fk7_an_idle_cluster_sees_no_write(start_operator, kubectl, make, until):
    await kubectl.create("Service", make.service())
    operator = await start_operator()
    for number in range(5):
        await kubectl.create("LLMApplication", make.application(f"a{number}"))
    for number in range(5):
        await until(lambda number=number: kubectl.conditions("LLMApplication", f"a{number}"))
    await until(lambda: len(kubectl.all("Event")) == 5)
    before = len(kubectl.server.writes)
    done = operator.metric(
        "justitia_operator_reconciles_total", kind="LLMApplication", result="done"
    )

    def has_looked_again():
        labels = {"kind": "LLMApplication", "result": "done"}
        return operator.metric("justitia_operator_reconciles_total", **labels) >= done + 15

    await until(has_looked_again)  # three comparisons
    assert len(kubectl.server.writes) == before


@pytest.fixture
async def cluster(start_operator, kubectl, make):
    """A running operator beside a pool, and what a user does."""
    await kubectl.create("Service", make.service())
    kubectl.operator = await start_operator()
    return kubectl


async def test_a_training_job_is_created_once_and_its_model_ends_in_the_status(
    cluster, scheduler, make, until, artefact
):
    kubectl = cluster
    await kubectl.create("PredictorProfile", make.profile())
    spec = {"predictor": {"profileRef": {"name": "default"}}}
    await kubectl.create("LLMApplication", make.application(**spec))
    await until(lambda: kubectl.conditions("LLMApplication", "chat"))
    scheduler.record_samples(100)
    (job,) = await until(lambda: kubectl.all("Job"))
    name = job["metadata"]["name"]
    assert job["metadata"]["ownerReferences"][0]["name"] == "default"
    await kubectl.patch("Job", name, {"status": make.done_job}, subresource="/status")
    await scheduler.publish("chat", artefact)

    def is_ready():
        told = kubectl.conditions("LLMApplication", "chat")
        return told["PredictorReady"] == ("True", "ModelActive")

    await until(is_ready)
    profile = await until(
        lambda: (kubectl.find("PredictorProfile", "default").get("status") or {}).get("activeModel")
    )
    assert profile["application"] == "chat"
    assert len(kubectl.all("Job")) == 1


async def test_fk6_what_changed_while_the_operator_was_away_is_caught_up(
    start_operator, kubectl, scheduler, make, until
):
    await kubectl.create("Service", make.service())
    operator = await start_operator()
    for name in ("chat", "gone"):
        await kubectl.create("LLMApplication", make.application(name))
        await until(lambda name=name: kubectl.conditions("LLMApplication", name))
    await asyncio.to_thread(operator.stop)
    await kubectl.delete("LLMApplication", "gone")
    await kubectl.patch("LLMApplication", "chat", {"spec": {"weight": 8}})
    await kubectl.create("LLMApplication", make.application("new"))
    await start_operator()

    async def is_caught_up():
        held = {name: item.weight for (_, name), item in (await scheduler.held()).items()}
        return held == {"chat": 8, "new": 1}

    await until(is_caught_up)
    await until(lambda: kubectl.find("LLMApplication", "chat")["status"]["observedGeneration"] == 2)


async def test_fk5_the_operator_outlives_an_api_server_that_refuses_everything(
    start_operator, kubectl, scheduler, make, until
):
    await kubectl.create("Service", make.service())
    operator = await start_operator()
    await kubectl.create("LLMApplication", make.application())
    await until(lambda: kubectl.conditions("LLMApplication", "chat"))
    await kubectl.server.refuse(403)
    await until(operator.process._comparison.unreadiness)
    await until(lambda: kubectl.server.num_refused_watches >= 12)  # three attempts of each watch
    assert not operator.process._comparison.ailment()
    kubectl.server.refusal = None
    await until(lambda: not operator.process._comparison.unreadiness())
    await kubectl.patch("LLMApplication", "chat", {"spec": {"weight": 8}})

    async def is_caught_up():
        return (await scheduler.held())["team-a/llama", "chat"].weight == 8

    await until(is_caught_up)


async def test_fk10_rights_on_single_namespaces_are_enough(
    start_operator, kubectl, scheduler, make, until
):
    kubectl.server.is_namespaced_only = True
    await kubectl.create("Service", make.service())
    await start_operator("--watch-namespaces=team-a,team-b")
    await kubectl.create("LLMApplication", make.application())
    other = make.application("other", namespace="team-c")
    await kubectl.create("LLMApplication", other)
    await until(lambda: kubectl.conditions("LLMApplication", "chat").get("Ready"))
    assert set(await scheduler.held()) == {("team-a/llama", "chat")}
    assert not kubectl.conditions("LLMApplication", "other", "team-c")


async def test_the_http_port_serves_probes_and_metrics(start_operator, kubectl, make, until):
    await kubectl.create("Service", make.service())
    operator = await start_operator()
    await kubectl.create("LLMApplication", make.application())
    await until(lambda: kubectl.conditions("LLMApplication", "chat"))
    url = f"http://127.0.0.1:{operator.process.port}"
    async with aiohttp.ClientSession(url) as session:
        for page in ("/healthz", "/readyz"):
            async with session.get(page) as answer:
                assert (answer.status, await answer.text()) == (200, "ok")
        async with session.get("/metrics") as answer:
            text = await answer.text()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    ready = [
        sample
        for sample in families["justitia_resource_condition"].samples
        if sample.labels["type"] == "Ready" and sample.labels["name"] == "chat"
    ]
    assert [(sample.labels["status"], sample.value) for sample in ready] == [("True", 1)]
    assert families["justitia_operator_scheduler_up"].samples[0].value == 1


async def test_fk5_a_deaf_watch_fails_liveness_and_its_change_is_healed(
    cluster, scheduler, make, until, monkeypatch
):
    monkeypatch.setattr("justitia_operator.world.DEAF_S", 0.5)
    kubectl, operator = cluster, cluster.operator
    await kubectl.create("LLMApplication", make.application())
    await until(lambda: kubectl.conditions("LLMApplication", "chat"))
    kubectl.server.is_silent = True
    await kubectl.patch("LLMApplication", "chat", {"spec": {"weight": 8}})

    async def is_healed():
        return (await scheduler.held())["team-a/llama", "chat"].weight == 8

    await until(is_healed)
    url = f"http://127.0.0.1:{operator.process.port}/healthz"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 503
        assert "LLMApplication" in await answer.text()


async def test_a_process_starts_and_leaves_quickly_on_sigterm(
    kubeconfig, kubectl, scheduler, make, until
):
    await kubectl.create("Service", make.service())
    await kubectl.create("LLMApplication", make.application())
    command = [sys.executable, "-m", "justitia_operator", "--log-format=json"]
    command += [f"--scheduler-address={scheduler.address}", "--http-address=127.0.0.1:0"]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stderr=asyncio.subprocess.PIPE
    )
    await until(lambda: kubectl.conditions("LLMApplication", "chat").get("Ready"), timeout_s=60)
    process.send_signal(signal.SIGTERM)
    _, text = await process.communicate()
    assert process.returncode == 0, text.decode()
    lines = [json.loads(line) for line in text.decode().splitlines()]
    stamps = [(line["event"], datetime.fromisoformat(line["timestamp"])) for line in lines]
    times = dict(reversed(stamps))  # the first of each
    # kopf waits 5 s for tasks that nobody ended
    assert (times["stopped"] - times["stopping"]).total_seconds() < 4
    assert lines[-1]["event"] == "stopped"
    assert all("level" in line for line in lines)
