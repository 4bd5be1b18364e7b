"""The fast engine against an engine that keeps lists and goes token by token, under each policy."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.engines import EngineReport, RunReport
from justitia.core.estimates import Estimate, Source
from justitia.core.policies import POLICIES, Inference, Service, make_policy
from justitia.core.pool import Pool
from justitia.core.units import parse_weight
from justitia.sim.estimators import make_estimator
from justitia.sim.loop import play
from justitia.sim.step_models import step_time_of
from justitia.step_time import Chunk
from justitia.testing.sim_scenarios import scenarios


@dataclass(eq=False)
class Request:
    """One inference as plainly as it can be kept."""

    inference: Inference
    place: int
    prompt: int
    output: int
    generated: int = 0
    computed: int = 0
    mark: int = 0
    blocks: int = 0
    has_started: bool = False

    @property
    def run_id(self):
        return self.inference.run_id


class PlainEngine:
    """vLLM's order of things in lists, without prefix cache: one step after the other."""

    def __init__(self, plan, policy):
        self.plan = plan
        self.policy = policy
        self.free = plan.blocks
        self.running = []
        self.waiting = []
        self.useful = {}
        self.wasted = {}
        self.num_preemptions = 0

    def rank(self, request):
        return self.policy.key(request.inference), request.inference.sequence

    def wait(self, request):
        if all(other.run_id != request.run_id for other in self.waiting):
            head = min(self.waiting, key=self.rank, default=None)
            least = None if head is None else self.policy.key(head.inference)
            self.policy.activate(request.run_id, least)
        self.waiting.append(request)

    def blocks_of(self, tokens):
        size = self.plan.block_size_tokens
        return (tokens + size - 1) // size

    def grow(self, request, tokens):
        """Take the blocks for more tokens; False if there are too few."""
        missing = self.blocks_of(request.computed + tokens) - request.blocks
        if missing > self.free:
            return False
        self.free -= missing
        request.blocks += missing
        return True

    def drop(self, request):
        self.running.remove(request)
        self.free += request.blocks
        request.blocks = 0

    def plan_step(self):
        """List who computes how many tokens."""
        budget = self.plan.max_num_batched_tokens
        chunks, was_full = {}, False
        for request in list(self.running):
            if request not in self.running or budget == 0:
                continue
            tokens = min(request.prompt + request.generated - request.computed, budget)
            while request in self.running and not self.grow(request, tokens):
                victim = max(self.running, key=self.rank)
                budget += chunks.pop(victim, 0)
                self.drop(victim)
                victim.computed = 0
                self.num_preemptions += 1
                self.wait(victim)
                was_full = True
            if request not in self.running:
                break
            chunks[request] = tokens
            budget -= tokens
        if not was_full:
            self.admit(chunks, budget)
        self.charge(chunks)
        return chunks

    def admit(self, chunks, budget):
        fresh = []
        while self.waiting and budget:
            request = min(self.waiting, key=self.rank)
            total = request.prompt + request.generated
            needed = self.blocks_of(total)
            if self.running:
                needed += int(self.plan.watermark * (self.plan.blocks + 1))
            if len(self.running) == self.plan.max_num_seqs or needed > self.free:
                break
            self.waiting.remove(request)
            if all(other.run_id != request.run_id for other in self.waiting):
                self.policy.deactivate(request.run_id)
            self.running.append(request)
            if not request.has_started:
                request.has_started = True
                fresh.append(request)
            chunks[request] = min(total, budget)
            assert self.grow(request, chunks[request])
            budget -= chunks[request]
        for request in fresh:
            self.policy.charge(request.run_id, Service(prompt_tokens=request.prompt))

    def charge(self, chunks):
        for request, tokens in chunks.items():
            held = request.computed + tokens
            if held > request.mark:
                request.mark = held
                self.useful[request.run_id] = self.useful.get(request.run_id, 0) + held
                self.policy.charge(request.run_id, Service(useful_kvtt=held))
            else:
                self.wasted[request.run_id] = self.wasted.get(request.run_id, 0) + held

    def take_in(self, chunks):
        ended = []
        for request, tokens in chunks.items():
            request.computed += tokens
            if request.computed == request.prompt + request.generated:
                request.generated += 1
                if request.output:
                    self.policy.charge(request.run_id, Service(output_tokens=1))
                if request.generated >= max(1, request.output):
                    self.drop(request)
                    ended.append(request)
        return ended


class PlainPlay:
    """One engine, its pool and the runs; inferences have no pauses."""

    def __init__(self, scenario, policy):
        self.scenario = scenario
        self.policy = make_policy(policy)
        self.engine = PlainEngine(scenario.engines[0], self.policy)
        self.pool = Pool()
        self.pool.join_engine("e", "1", kv_capacity_tokens=scenario.engines[0].kv_capacity_tokens)
        self.estimator = make_estimator("exact", scenario)
        self.num_reports = self.num_inferences = 0
        self.ended = {}
        self.ends_s = {}

    def report(self, now_s):
        self.num_reports += 1
        runs = tuple(RunReport(name, useful) for name, useful in self.engine.useful.items())
        self.pool.report(EngineReport("e", "1", self.num_reports, 0, runs), now_s=now_s)

    def start(self, run, now_s):
        self.report(now_s)
        weight = parse_weight(self.scenario.weight_of(run.application))
        cost = self.estimator.run(run).cost_kvtt
        view = self.pool.start_run(
            run.id,
            run.application,
            weight=weight,
            estimate=Estimate(cost, Source.MODEL),
            now_s=now_s,
        )
        self.policy.start_run(run.id, view.sequence)
        self.policy.set_cost(run.id, cost)
        self.policy.set_finish(run.id, view.finish, view.sequence)
        self.ended[run.id] = set()
        for place, inference in enumerate(run.inferences):
            if not inference.after:
                self.submit(run, place)

    def submit(self, run, place):
        self.num_inferences += 1
        plan = run.inferences[place]
        expected = self.estimator.inference(run, place)
        inference = Inference(f"{run.id}/{place}", run.id, self.num_inferences, expected)
        self.engine.wait(Request(inference, place, plan.prompt_tokens, plan.output_tokens))

    def end(self, request, now_s):
        run = next(each for each in self.scenario.runs if each.id == request.run_id)
        ended = self.ended[run.id]
        ended.add(request.place)
        for place, inference in enumerate(run.inferences):
            if request.place in inference.after and set(inference.after) <= ended:
                self.submit(run, place)
        if len(ended) == len(run.inferences):
            self.ends_s[run.id] = now_s
            self.report(now_s)
            self.pool.end_run(run.id, now_s=now_s)
            self.policy.end_run(run.id)

    def play(self):
        step_time = step_time_of(self.scenario.engines[0].step_time)
        coming = list(self.scenario.runs)
        now_s = 0.0
        while coming or self.engine.running or self.engine.waiting:
            if not (self.engine.running or self.engine.waiting):
                now_s = max(now_s, coming[0].arrival_s)
            while coming and coming[0].arrival_s <= now_s:
                self.start(coming.pop(0), now_s)
            chunks = self.engine.plan_step()
            end_s = now_s
            if chunks:
                end_s += step_time.of(Chunk(n, each.computed + n) for each, n in chunks.items())
            # A run that comes during the step meets what was planned for it, not what came out.
            while coming and now_s < coming[0].arrival_s < end_s:
                self.start(coming[0], coming.pop(0).arrival_s)
            now_s = end_s
            for request in self.engine.take_in(chunks):
                self.end(request, now_s)


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(
    plan=scenarios(max_engines=1, has_pauses=False, has_prefix_cache=False),
    policy=st.sampled_from(sorted(POLICIES)),
)
def test_each_run_ends_when_the_plain_engine_ends_it(plan, policy):
    plain = PlainPlay(plan, policy)
    plain.play()
    played = play(plan, policy)
    assert {each.run_id: each.finished_at_s for each in played.runs} == plain.ends_s
    assert {each.run_id: each.true_kvtt for each in played.runs} == plain.engine.useful
    assert played.wasted_kvtt == sum(plain.engine.wasted.values())
    assert played.engines[0].preemptions == plain.engine.num_preemptions
