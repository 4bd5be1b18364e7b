"""Looks and comparisons against a recording API server and the real scheduler service."""

from datetime import UTC, datetime, timedelta

import pytest

from justitia.api.v1 import training_pb2
from justitia_operator.apply import ClusterError
from justitia_operator.comparison import Comparison
from justitia_operator.facts import Key, Kind
from justitia_operator.gather import key_of
from justitia_operator.manifests import TrainerOptions
from justitia_operator.metrics import Metrics
from justitia_operator.reconciler import Item, Reconciler, ReconcilerOptions
from justitia_operator.scheduler import GRACE_S, RefusedError, SchedulerLink
from justitia_operator.wakeups import Wakeups
from justitia_operator.world import DEAF_S
from justitia_operator.writing import Clock

CHAT = Key("team-a", "chat")
PROFILE = Key("team-a", "default")
WITH_PROFILE = {"predictor": {"profileRef": {"name": "default"}}}


class FakeCluster:
    """An API server that remembers what it was told; its watches speak when a test says so."""

    def __init__(self):
        self.objects = {kind: {} for kind in Kind}
        self.statuses = []
        self.events = []
        self.created = []
        self.deleted = []
        self.explanations = {}
        self.errors = {}
        self.serial = 0

    def _maybe_fail(self, call):
        if call in self.errors:
            raise self.errors[call]

    def put(self, kind, body):
        self.serial += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.serial)}}
        self.objects[kind][key_of(body)] = body
        return body

    async def versions(self, kind):
        self._maybe_fail("versions")
        return {
            key: (body["metadata"]["uid"], body["metadata"]["resourceVersion"])
            for key, body in self.objects[kind].items()
        }

    async def get(self, kind, key):
        return self.objects[kind].get(key)

    async def apply_status(self, kind, meta, status):
        self._maybe_fail("apply_status")
        body = self.objects[kind].get(meta.key)
        if body is None or body["metadata"]["uid"] != meta.uid:
            raise ClusterError(409, "the uid in the precondition does not match")
        self.statuses.append((kind, meta.key, status))
        self.put(kind, {**body, "status": status})

    async def create_job(self, job):
        self._maybe_fail("create_job")
        if key_of(job) in self.objects[Kind.JOB]:
            return False
        metadata = {
            **job["metadata"],
            "uid": f"uid-{job['metadata']['name']}",
            "creationTimestamp": "2026-11-30T12:00:00Z",
        }
        self.created.append(job)
        self.put(Kind.JOB, {**job, "metadata": metadata, "status": {}})
        return True

    async def delete_job(self, meta):
        self.deleted.append(meta.key)
        self.objects[Kind.JOB].pop(meta.key, None)

    async def post_event(self, event):
        self._maybe_fail("post_event")
        self.events.append(event)

    async def explain_job(self, meta):
        return self.explanations.get(meta.key.name, "")


class Bench:
    """An operator without kopf, on clocks that a test moves."""

    def __init__(self, scheduler, make, *, namespaces=(), owner="justitia-operator", cluster=None):
        self.scheduler, self.make = scheduler, make
        self.now_s = 1000.0
        clock = Clock(
            now=lambda: (
                datetime(2026, 11, 30, 12, tzinfo=UTC) + timedelta(seconds=self.now_s - 1000)
            ),
            now_s=lambda: self.now_s,
        )
        self.cluster = cluster or FakeCluster()
        self.metrics = Metrics()
        self.link = SchedulerLink(scheduler.address, None, now_s=lambda: self.now_s)
        options = ReconcilerOptions(
            owner=owner,
            figures_s=60.0,
            max_training_jobs=2,
            trainer=lambda: TrainerOptions(image="trainer:1", scheduler_address="s:50051"),
        )
        self.reconciler = Reconciler(self.cluster, self.link, options, self.metrics, clock)
        self.comparison = Comparison(self.reconciler, namespaces=namespaces, resync_s=30.0)

    def watch(self, kind, body):
        """Create or change an object, and let its watch tell."""
        self.reconciler.seen(kind, self.cluster.put(kind, body), is_gone=False)

    def unwatch(self, kind, key):
        """Delete an object, and let its watch tell."""
        body = self.cluster.objects[kind].pop(key)
        self.reconciler.seen(kind, body, is_gone=True)

    def rewatch(self):
        """Let the watches tell what the operator itself wrote."""
        for kind in Kind:
            for body in list(self.cluster.objects[kind].values()):
                self.reconciler.seen(kind, body, is_gone=False)

    async def look(self, kind=Kind.APPLICATION, key=CHAT):
        result = await self.reconciler._try_look(Item(kind, key))
        self.rewatch()
        return result

    async def back(self, until):
        """Wait until the restarted service is reached again."""
        await until(lambda: self.comparison._compare_service(None))

    async def settle(self):
        """Compare, then look at everything until nothing is written any more."""
        await self.comparison.compare()
        self.rewatch()
        for _ in range(4):
            for kind in (Kind.APPLICATION, Kind.PROFILE):
                for key in list(self.cluster.objects[kind]):
                    await self.look(kind, key)

    def status(self, kind=Kind.APPLICATION, key=CHAT):
        return self.cluster.objects[kind][key].get("status", {})

    def condition(self, type_, kind=Kind.APPLICATION, key=CHAT):
        listed = self.status(kind, key).get("conditions", [])
        return next(((c["status"], c["reason"]) for c in listed if c["type"] == type_), None)

    def message(self, type_):
        return next(c["message"] for c in self.status()["conditions"] if c["type"] == type_)

    def application(self, *, uid="uid-1", generation=1, name="chat", **spec):
        body = self.make.stored(self.make.application(name, **spec), uid=uid, generation=generation)
        self.watch(Kind.APPLICATION, body)

    def profile(self, **spec):
        body = self.make.stored(self.make.profile(**spec), uid="uid-profile")
        self.watch(Kind.PROFILE, body)

    def service(self, **changes):
        self.watch(Kind.SERVICE, self.make.stored(self.make.service(**changes), uid="uid-service"))

    async def end_job(self, status, name=None):
        key = next(iter(self.cluster.objects[Kind.JOB])) if name is None else Key("team-a", name)
        self.watch(Kind.JOB, {**self.cluster.objects[Kind.JOB][key], "status": status})


@pytest.fixture
async def bench(scheduler, make):
    bench = Bench(scheduler, make)
    bench.service()
    yield bench
    await bench.link.close()


@pytest.fixture
async def open_bench(scheduler, make):
    benches = []

    def open_(**kwargs):
        benches.append(Bench(scheduler, make, **kwargs))
        return benches[-1]

    yield open_
    for bench in benches:
        await bench.link.close()


# -- programming -----------------------------------------------------------------------------------


async def test_an_application_is_programmed_and_told_so(bench, scheduler):
    bench.application(weight=3)
    await bench.settle()
    held = await scheduler.held()
    assert held["team-a/llama", "chat"].weight == 3
    assert held["team-a/llama", "chat"].declared_by == "justitia-operator:team-a/chat#uid-1"
    assert bench.condition("Ready") == ("True", "Programmed")
    assert bench.condition("ResolvedRefs") == ("True", "Resolved")
    assert bench.condition("PolicyEffective") == ("Unknown", "NoEngines")
    assert bench.status()["applicationName"] == "chat"
    assert bench.status()["observedGeneration"] == 1


async def test_an_edit_reaches_the_service(bench, scheduler):
    bench.application(weight=1)
    await bench.settle()
    bench.application(weight=5, generation=2)
    await bench.look()
    assert (await scheduler.held())["team-a/llama", "chat"].weight == 5
    assert bench.status()["observedGeneration"] == 2


async def test_fk2_a_deleted_application_leaves_the_service_at_once(bench, scheduler):
    bench.application()
    await bench.settle()
    bench.unwatch(Kind.APPLICATION, CHAT)
    assert await bench.look() == "done"
    assert await scheduler.held() == {}


async def test_fk2_an_application_that_others_hold_back_leaves_too_and_gets_no_writes(
    bench, scheduler
):
    bench.application()
    await bench.settle()
    body = bench.cluster.objects[Kind.APPLICATION][CHAT]
    metadata = {**body["metadata"], "deletionTimestamp": "2026-11-30T12:00:00Z"}
    bench.watch(Kind.APPLICATION, {**body, "metadata": metadata})
    writes = len(bench.cluster.statuses)
    await bench.look()
    assert await scheduler.held() == {}
    assert len(bench.cluster.statuses) == writes


async def test_fk2_deleting_needs_nobody_else(bench, scheduler, until):
    """No finalizer, so the object is gone whatever the service does; it follows when it is back."""
    bench.application()
    await bench.settle()
    await scheduler.stop()
    bench.unwatch(Kind.APPLICATION, CHAT)
    assert await bench.look() == "away"
    await scheduler.start()
    mark = "justitia-operator:team-a/chat#uid-1"
    await scheduler.declare(name="chat", pool="team-a/llama", declared_by=mark)  # as its journal
    await bench.back(until)
    await bench.comparison.compare()
    assert await scheduler.held() == {}


async def test_fk1_a_recreated_application_has_no_history(bench, scheduler, artefact):
    bench.application()
    await bench.settle()
    await scheduler.publish("chat", artefact)
    bench.application(uid="uid-2")
    await bench.comparison.compare()
    await bench.look()
    held = (await scheduler.held())["team-a/llama", "chat"]
    assert held.declared_by.endswith("#uid-2")
    assert held.status.model_version == ""


async def test_fk1_a_restored_application_with_an_old_status_is_programmed(bench, scheduler):
    bench.application()
    await bench.settle()
    old = bench.status()
    bench.unwatch(Kind.APPLICATION, CHAT)
    await bench.look()
    restored = bench.make.stored(bench.make.application(), uid="uid-2")
    bench.watch(Kind.APPLICATION, {**restored, "status": old})
    await bench.look()
    assert (await scheduler.held())["team-a/llama", "chat"].declared_by.endswith("#uid-2")
    assert bench.condition("Ready") == ("True", "Programmed")


async def test_fk3_a_bad_application_harms_no_other(bench):
    bench.application(name="bad", weight=-1)
    bench.application()
    await bench.settle()
    assert bench.condition("Ready", key=Key("team-a", "bad")) == ("False", "InvalidSpec")
    assert bench.condition("Ready") == ("True", "Programmed")
    bench.unwatch(Kind.APPLICATION, Key("team-a", "bad"))
    assert await bench.look(key=Key("team-a", "bad")) == "done"


async def test_what_the_service_refuses_is_told_in_its_words(bench):
    bench.application()
    await bench.comparison.compare()

    async def refuse(_):
        raise RefusedError("application.name: a pool has at most 2000 of them")

    bench.link.apply = refuse
    await bench.look()
    assert bench.condition("Ready") == ("False", "Refused")
    assert bench.message("Ready") == "application.name: a pool has at most 2000 of them"


async def test_fk12_a_grant_lets_an_application_in_and_its_withdrawal_puts_it_out(bench, scheduler):
    bench.application(poolRef={"name": "llama", "namespace": "pools"})
    bench.service(namespace="pools")
    await bench.settle()
    assert bench.condition("ResolvedRefs") == ("False", "RefNotPermitted")
    assert await scheduler.held() == {}
    bench.service(namespace="pools", grants="team-a")
    await bench.look()
    assert set(await scheduler.held()) == {("pools/llama", "team-a/chat")}
    assert bench.status()["applicationName"] == "team-a/chat"
    bench.service(namespace="pools", grants="team-b")
    await bench.look()
    assert await scheduler.held() == {}


async def test_fk6_a_pool_that_comes_later_makes_the_application_ready(open_bench, scheduler):
    bench = open_bench()
    bench.application()
    await bench.settle()
    assert bench.condition("Ready") == ("False", "RefsNotResolved")
    assert await scheduler.held() == {}
    bench.service()
    await bench.look()
    assert bench.condition("Ready") == ("True", "Programmed")


@pytest.mark.parametrize("what", ["pool", "profile", "own"])
async def test_fk6_a_change_of_what_it_refers_to_wakes_an_application(bench, what):
    bench.application(**WITH_PROFILE)
    await bench.settle()
    bench.reconciler.wakeups = queue = Wakeups()
    bench.service()  # nothing of interest changed
    assert len(queue) == 0
    if what == "pool":
        bench.service(grants="team-b")
    elif what == "profile":
        bench.profile()
    else:
        bench.application(generation=2, **WITH_PROFILE)
    assert Item(Kind.APPLICATION, CHAT) in queue._due_s


# -- comparisons -----------------------------------------------------------------------------------


async def test_fk6_what_went_while_the_operator_was_away_is_removed(bench, scheduler):
    mark = "justitia-operator:team-a/gone#uid-9"
    await scheduler.declare(name="gone", pool="team-a/llama", declared_by=mark)
    await bench.comparison.compare()
    assert await scheduler.held() == {}


async def test_what_others_declared_is_never_removed(bench, scheduler):
    await scheduler.declare(name="by-hand", pool="default")
    await scheduler.declare(name="x", pool="p", declared_by="cluster-b:team-a/x#uid-1")
    await scheduler.declare(name="y", pool="p", declared_by="a script")
    await bench.comparison.compare()
    assert {name for _, name in await scheduler.held()} == {"by-hand", "x", "y"}


async def test_fk10_namespaces_that_are_not_served_are_left_alone(open_bench, scheduler):
    bench = open_bench(namespaces=("team-a",))
    mark = "justitia-operator:team-b/theirs#uid-9"
    await scheduler.declare(name="theirs", pool="team-b/llama", declared_by=mark)
    await bench.comparison.compare()
    assert len(await scheduler.held()) == 1


async def test_fk5_without_a_listing_nothing_is_removed(bench, scheduler):
    mark = "justitia-operator:team-a/gone#uid-9"
    await scheduler.declare(name="gone", pool="team-a/llama", declared_by=mark)
    bench.cluster.errors["versions"] = ClusterError(403, "forbidden")
    await bench.comparison.compare()
    assert len(await scheduler.held()) == 1
    assert bench.comparison.unreadiness()
    bench.cluster.errors.clear()
    await bench.comparison.compare()
    assert await scheduler.held() == {}


async def test_an_application_that_only_the_listing_knows_is_not_gone(bench, scheduler, make):
    """The watch is late: what it has not told yet exists all the same."""
    body = make.stored(make.application("late"), uid="uid-9")
    bench.cluster.put(Kind.APPLICATION, body)
    mark = "justitia-operator:team-a/late#uid-9"
    await scheduler.declare(name="late", pool="team-a/llama", declared_by=mark)
    await bench.comparison.compare()
    assert len(await scheduler.held()) == 1


async def test_fk6_what_the_service_lost_is_programmed_again(bench, scheduler, until):
    bench.application(weight=4)
    await bench.settle()
    await scheduler.stop()
    await scheduler.start()  # without a journal: it knows nothing any more
    assert await scheduler.held() == {}
    await bench.back(until)
    await bench.settle()
    assert (await scheduler.held())["team-a/llama", "chat"].weight == 4


async def test_fk6_what_somebody_changed_by_hand_is_put_back(bench, scheduler):
    bench.application(weight=4)
    await bench.settle()
    await scheduler.declare(name="chat", pool="team-a/llama", weight=9)
    await bench.settle()
    held = (await scheduler.held())["team-a/llama", "chat"]
    assert held.weight == 4
    assert held.declared_by


async def test_fk6_a_missed_change_is_healed_and_told(bench, scheduler):
    bench.application(weight=4)
    await bench.settle()
    body = bench.cluster.objects[Kind.APPLICATION][CHAT]
    metadata = {**body["metadata"], "generation": 2}
    bench.cluster.put(
        Kind.APPLICATION, {**body, "metadata": metadata, "spec": {**body["spec"], "weight": 8}}
    )
    await bench.comparison.compare()
    assert not bench.comparison.ailment()
    bench.now_s += DEAF_S
    await bench.comparison.compare()
    assert "LLMApplication" in bench.comparison.ailment()
    await bench.look()
    assert (await scheduler.held())["team-a/llama", "chat"].weight == 8
    labels = {"kind": "LLMApplication"}
    name = "justitia_operator_missed_changes_total"
    assert bench.metrics.registry.get_sample_value(name, labels) == 1


async def test_fk5_a_comparison_that_hangs_is_an_ailment(bench):
    await bench.comparison.compare()
    assert not bench.comparison.ailment()
    bench.now_s += 1000
    assert "no comparison" in bench.comparison.ailment()


async def test_the_pool_follows_the_mode_that_all_its_applications_ask_for(bench, scheduler):
    await scheduler.declare(name="x", pool="team-a/llama")
    await scheduler.join()
    bench.application(mode="Shadow")
    await bench.settle()
    await bench.settle()
    assert bench.condition("PolicyEffective") == ("True", "InForce")
    assert bench.status()["effectivePolicy"] == "Shadow"
    bench.application(name="other", uid="uid-2", mode="Enforce")
    await bench.settle()
    await bench.settle()
    assert bench.condition("PolicyEffective") == ("False", "PoolEnforces")
    assert bench.condition("PolicyEffective", key=Key("team-a", "other")) == ("True", "InForce")


async def test_a_name_that_another_operator_keeps_is_told(bench, scheduler):
    mark = "cluster-b:team-a/chat#uid-7"
    await scheduler.declare(name="chat", pool="team-a/llama", weight=7, declared_by=mark)
    bench.application(weight=1)
    await bench.settle()
    assert bench.condition("Ready") == ("False", "DeclaredElsewhere")
    assert "cluster-b" in bench.message("Ready")
    assert (await scheduler.held())["team-a/llama", "chat"].weight == 7


# -- quiet -----------------------------------------------------------------------------------------


async def test_fk7_at_rest_nothing_is_written(bench):
    bench.application(fairness={"objective": {"maxRatio": "1.5"}}, **WITH_PROFILE)
    bench.profile()
    await bench.settle()
    writes = len(bench.cluster.statuses)
    assert writes <= 4
    for _ in range(20):
        bench.now_s += 30
        await bench.settle()
    assert len(bench.cluster.statuses) == writes
    assert len(bench.cluster.events) <= 2


async def test_fk7_figures_are_written_once_a_minute_at_most(bench, scheduler):
    bench.application()
    await bench.settle()
    writes = len(bench.cluster.statuses)
    for number in range(12):  # two minutes in which every look finds other figures
        await scheduler.run_once(f"r{number}")
        bench.now_s += 10
        await bench.settle()
    assert len(bench.cluster.statuses) - writes == 2
    assert bench.status()["runs"]["active"] == 12


async def test_fk7_a_conflict_is_no_storm(bench):
    bench.application()
    await bench.comparison.compare()
    bench.cluster.errors["apply_status"] = ClusterError(409, "conflict")
    assert await bench.look() == "done"
    bench.cluster.errors["apply_status"] = ClusterError(500, "etcd is away")
    assert await bench.look() == "failed"  # the queue tries again, ever more rarely
    bench.cluster.errors.clear()
    await bench.look()
    assert bench.condition("Ready") == ("True", "Programmed")


async def test_fk7_a_recreated_object_never_gets_the_status_of_the_old_one(bench, make):
    bench.application()
    await bench.comparison.compare()
    newer = make.stored(make.application(weight=-1), uid="uid-2")
    bench.cluster.put(Kind.APPLICATION, newer)  # no watch has told of it yet
    await bench.reconciler._try_look(Item(Kind.APPLICATION, CHAT))
    assert bench.status() == {}


async def test_events_tell_each_change_once_and_survive_a_refusal(bench):
    bench.application()
    await bench.settle()
    assert [event["reason"] for event in bench.cluster.events] == ["Programmed"]
    bench.cluster.errors["post_event"] = ClusterError(403, "forbidden")
    bench.application(weight=0, generation=2)
    assert await bench.look() == "done"
    assert bench.condition("Ready") == ("False", "InvalidSpec")
    bench.cluster.errors.clear()
    bench.application(weight=1, generation=3)
    await bench.look()
    assert [event["reason"] for event in bench.cluster.events] == ["Programmed", "Programmed"]
    names = {event["metadata"]["name"] for event in bench.cluster.events}
    assert len(names) >= 1


async def test_fk5_a_restart_of_the_service_changes_no_condition(bench, scheduler, until):
    bench.application()
    await bench.settle()
    writes = len(bench.cluster.statuses)
    await scheduler.stop()
    await bench.settle()
    assert len(bench.cluster.statuses) == writes
    bench.now_s += GRACE_S
    await bench.settle()
    assert bench.condition("Ready") == ("Unknown", "SchedulerUnreachable")
    assert bench.status()["runs"] == {"active": 0, "completed": 0}
    await scheduler.start()
    await bench.back(until)
    await bench.settle()
    assert bench.condition("Ready") == ("True", "Programmed")
    assert [event["reason"] for event in bench.cluster.events] == ["Programmed"]


async def test_a_restarted_operator_writes_nothing_anew(open_bench, bench):
    bench.application(**WITH_PROFILE)
    bench.profile()
    await bench.settle()
    writes = len(bench.cluster.statuses)
    second = open_bench(cluster=bench.cluster)
    second.rewatch()
    await second.settle()
    assert len(bench.cluster.statuses) == writes


# -- metrics ---------------------------------------------------------------------------------------


async def test_conditions_are_metrics_and_go_with_the_object(bench):
    bench.application()
    await bench.settle()

    def value(type_, status):
        labels = {
            "kind": "LLMApplication",
            "namespace": "team-a",
            "name": "chat",
            "type": type_,
            "status": status,
        }
        return bench.metrics.registry.get_sample_value("justitia_resource_condition", labels)

    assert value("Ready", "True") == 1
    assert value("Ready", "False") is None
    bench.application(weight=0, generation=2)
    await bench.look()
    assert (value("Ready", "True"), value("Ready", "False")) == (None, 1)
    bench.unwatch(Kind.APPLICATION, CHAT)
    await bench.look()
    assert (value("Ready", "True"), value("Ready", "False")) == (None, None)


# -- trainings -------------------------------------------------------------------------------------


@pytest.fixture
async def trained(bench, scheduler, until):
    """An application with a profile and enough samples."""
    bench.application(**WITH_PROFILE)
    bench.profile()
    await bench.settle()
    scheduler.record_samples(100)

    async def is_recorded():
        return (await scheduler.held())["team-a/llama", "chat"].status.samples == 100

    await until(is_recorded)
    return bench


async def test_fk8_enough_samples_start_one_job_and_only_one(trained):
    assert trained.condition("PredictorReady") == ("False", "CollectingSamples")
    await trained.settle()
    await trained.settle()
    assert len(trained.cluster.created) == 1
    assert trained.condition("PredictorReady") == ("False", "TrainingRuns")
    assert trained.condition("Training", Kind.PROFILE, PROFILE) == ("True", "TrainingRuns")
    job = trained.cluster.created[0]
    (last,) = [entry["lastJob"] for entry in trained.status(Kind.PROFILE, PROFILE)["applications"]]
    assert last["name"] == job["metadata"]["name"]
    assert last["trigger"] == "First"
    made = ("justitia_operator_training_jobs_total", {"trigger": "First"})
    assert trained.metrics.registry.get_sample_value(*made) == 1
    assert "TrainingStarted" in [event["reason"] for event in trained.cluster.events]


async def test_fk8_a_published_model_ends_the_training_in_status(
    trained, scheduler, make, artefact
):
    await trained.settle()
    await trained.end_job(make.done_job)
    published = await scheduler.publish("chat", artefact)
    await trained.settle()
    assert trained.condition("PredictorReady") == ("True", "ModelActive")
    status = trained.status(Kind.PROFILE, PROFILE)
    assert status["activeModel"]["version"] == published.version
    assert status["activeModel"]["samples"] == 50
    assert status["lastJob"]["outcome"] == "Succeeded"
    assert len(trained.cluster.created) == 1
    assert "ModelActive" in [event["reason"] for event in trained.cluster.events]


async def test_a_model_that_is_no_better_than_the_mean_ends_the_training_without_one(
    trained, scheduler, make, artefact
):
    await trained.settle()
    await trained.end_job(make.done_job)
    published = await scheduler.training.PublishModel(
        training_pb2.PublishModelRequest(pool="team-a/llama", application="chat", artefact=artefact)
    )
    assert not published.is_active
    trained.now_s += 1
    await trained.settle()
    assert trained.condition("PredictorReady") == ("False", "NothingPublished")
    assert len(trained.cluster.created) == 1


async def test_fk8_a_refused_model_is_tried_again_once_the_samples_have_grown_by_half(
    trained, scheduler, make, until, open_bench
):
    await trained.settle()
    await trained.end_job(make.done_job)
    name = trained.cluster.created[0]["metadata"]["name"]

    async def settled(bench, total, *, new):
        scheduler.record_samples(new)

        async def is_recorded():
            return (await scheduler.held())["team-a/llama", "chat"].status.samples == total

        await until(is_recorded)
        bench.now_s += 1
        await bench.settle()
        return len(trained.cluster.created)

    assert await settled(trained, 149, new=49) == 1
    last = trained.status(Kind.PROFILE, PROFILE)["lastJob"]
    assert (last["outcome"], bool(last["newestSampleAt"])) == ("Succeeded", True)
    # What the Job had seen is remembered beyond it, and beyond the operator.
    trained.unwatch(Kind.JOB, Key("team-a", name))
    await trained.settle()
    second = open_bench(cluster=trained.cluster)
    second.rewatch()
    await second.settle()
    assert len(trained.cluster.created) == 1
    assert await settled(second, 150, new=1) == 2
    assert await settled(second, 160, new=10) == 2


async def test_fk8_a_model_that_no_listing_has_shown_yet_is_no_attempt_in_vain(
    trained, scheduler, make, until, artefact
):
    await trained.settle()
    scheduler.record_samples(100)

    async def is_recorded():
        return (await scheduler.held())["team-a/llama", "chat"].status.samples == 200

    await until(is_recorded)
    await trained.settle()
    await scheduler.publish("chat", artefact)
    trained.now_s += 1
    await trained.end_job(make.done_job)
    await trained.look()
    assert len(trained.cluster.created) == 1
    trained.now_s += 1
    await trained.settle()
    assert len(trained.cluster.created) == 1
    assert trained.condition("PredictorReady") == ("True", "ModelActive")


async def test_fk8_a_failed_job_says_why_and_is_not_repeated(trained, make):
    await trained.settle()
    name = trained.cluster.created[0]["metadata"]["name"]
    trained.cluster.explanations[name] = "Error: application 'chat' has 3 usable samples"
    await trained.end_job(make.failed_job)
    await trained.settle()
    assert trained.condition("PredictorReady") == ("False", "TrainingFailed")
    assert "3 usable samples" in trained.message("PredictorReady")
    last = trained.status(Kind.PROFILE, PROFILE)["lastJob"]
    assert last["reason"] == "BackoffLimitExceeded"
    assert "3 usable samples" in last["message"]
    trained.now_s += 3600
    await trained.settle()
    assert len(trained.cluster.created) == 1


async def test_fk8_a_cleaned_up_job_is_not_run_again_also_after_a_restart(
    trained, make, open_bench
):
    await trained.settle()
    name = trained.cluster.created[0]["metadata"]["name"]
    await trained.end_job(make.failed_job)
    await trained.settle()
    trained.unwatch(Kind.JOB, Key("team-a", name))
    await trained.settle()
    assert len(trained.cluster.created) == 1
    second = open_bench(cluster=trained.cluster)
    second.rewatch()
    await second.settle()
    assert len(trained.cluster.created) == 1
    assert second.condition("PredictorReady") == ("False", "TrainingFailed")


async def test_fk8_a_job_that_somebody_deletes_while_it_runs_is_told_and_not_repeated(trained):
    await trained.settle()
    name = trained.cluster.created[0]["metadata"]["name"]
    trained.unwatch(Kind.JOB, Key("team-a", name))
    await trained.settle()
    assert len(trained.cluster.created) == 1
    assert trained.condition("PredictorReady") == ("False", "TrainingFailed")
    assert "deleted before it ended" in trained.message("PredictorReady")


async def test_fk8_a_job_that_went_while_the_operator_was_away_is_told_and_not_repeated(
    trained, open_bench
):
    await trained.settle()
    assert trained.status(Kind.PROFILE, PROFILE)["lastJob"]["outcome"] == "Running"
    trained.cluster.objects[Kind.JOB].clear()
    second = open_bench(cluster=trained.cluster)
    second.rewatch()
    await second.settle()
    assert second.condition("PredictorReady") == ("False", "TrainingFailed")
    assert second.status(Kind.PROFILE, PROFILE)["lastJob"]["reason"] == "JobGone"
    assert len(trained.cluster.created) == 1


async def test_fk8_what_keeps_a_job_from_starting_is_told(trained):
    await trained.settle()
    name = trained.cluster.created[0]["metadata"]["name"]
    trained.cluster.explanations[name] = "FailedCreate: exceeded quota: team"
    trained.now_s += 60
    await trained.settle()
    assert "exceeded quota: team" in trained.message("PredictorReady")


async def test_fk8_a_refused_job_is_told_and_tried_again(trained):
    refusal = ClusterError(403, "POST /jobs: exceeded quota: count/jobs.batch")
    trained.cluster.errors["create_job"] = refusal
    await trained.settle()
    assert trained.condition("PredictorReady") == ("False", "TrainingRefused")
    assert "count/jobs.batch" in trained.message("PredictorReady")
    trained.cluster.errors.clear()
    await trained.settle()
    assert len(trained.cluster.created) == 1
    assert trained.condition("PredictorReady") == ("False", "TrainingRuns")


async def test_fk8_many_that_come_due_together_wait_for_each_other(bench, scheduler, make, until):
    bench.profile()
    names = [f"a{number}" for number in range(5)]
    for name in names:
        bench.application(name=name, uid=f"uid-{name}", **WITH_PROFILE)
    await bench.settle()
    for name in names:
        scheduler.record_samples(100, application=name)

    async def are_recorded():
        return all(item.status.samples == 100 for item in (await scheduler.held()).values())

    await until(are_recorded)
    await bench.settle()
    assert len(bench.cluster.created) == 2
    waiting = [
        name
        for name in names
        if bench.condition("PredictorReady", key=Key("team-a", name)) == ("False", "WaitingForJob")
    ]
    assert len(waiting) == 3
    await bench.end_job(make.failed_job)
    await bench.settle()
    assert len(bench.cluster.created) == 3


async def test_fk8_a_running_job_that_nobody_wants_is_ended(trained):
    await trained.settle()
    assert len(trained.cluster.objects[Kind.JOB]) == 1
    trained.application(generation=2)  # no profileRef any more
    await trained.settle()
    assert len(trained.cluster.deleted) == 1


async def test_fk8_with_the_application_its_running_job_goes(trained):
    await trained.settle()
    trained.unwatch(Kind.APPLICATION, CHAT)
    await trained.look()
    await trained.comparison.compare()
    assert len(trained.cluster.deleted) == 1


async def test_fk8_finished_jobs_are_left_to_their_ttl(trained, make):
    await trained.settle()
    await trained.end_job(make.failed_job)
    trained.application(generation=2)
    await trained.settle()
    assert trained.cluster.deleted == []


async def test_a_profile_wakes_its_applications_and_they_wake_it(bench):
    bench.application(**WITH_PROFILE)
    await bench.settle()
    assert bench.condition("ResolvedRefs") == ("False", "ProfileNotFound")
    bench.profile()
    await bench.look()
    assert bench.condition("ResolvedRefs") == ("True", "Resolved")
    await bench.look(Kind.PROFILE, PROFILE)
    assert bench.status(Kind.PROFILE, PROFILE)["applicationCount"] == 1


async def test_a_job_that_ended_well_is_no_disappointment_before_the_service_was_asked(
    trained, scheduler, make, artefact
):
    await trained.settle()
    trained.now_s += 1
    await trained.end_job(make.done_job)
    assert trained.reconciler.wants_listing.is_set()
    await trained.look()
    assert trained.condition("PredictorReady") == ("False", "TrainingRuns")
    trained.now_s += 1
    await trained.settle()
    assert trained.condition("PredictorReady") == ("False", "NothingPublished")
    await scheduler.publish("chat", artefact)
    await trained.settle()
    assert trained.condition("PredictorReady") == ("True", "ModelActive")
