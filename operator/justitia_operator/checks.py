"""The conditions of an LLMApplication: for each type one chain of small checks. Pure.

The first check of a chain that has something to say decides; the order is part of the contract.
Messages hold little that moves by itself, since a message that changes is a write.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from justitia.resources.application import FailureMode, Mode
from justitia.resources.numbers import decimal_text
from justitia.resources.profile_status import JobOutcome
from justitia_operator.conditions import FALSE, TRUE, UNKNOWN, Reason, Type
from justitia_operator.facts import (
    ApplicationFacts,
    Condition,
    Figures,
    JobRecord,
    ModelFacts,
    PoolState,
    ProfileFacts,
    Reach,
)
from justitia_operator.program import RefProblem
from justitia_operator.training import Due, is_withheld, is_without_effect

#: The policy of the paper, as engines name it.
POLICY: Final = "justitia"
_MAX_MESSAGE_CHARS: Final = 1000


class Programming(StrEnum):
    """What became of the attempt to have an application in the service."""

    IN_FORCE = "in force"
    #: Somebody else's application has the name.
    ELSEWHERE = "elsewhere"
    REFUSED = "refused"
    #: Not tried, or not answered.
    UNKNOWN = "unknown"
    #: It may not or cannot be programmed.
    NOT = "not"


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """All that the conditions of one application depend on; None: not known, or not there."""

    application: ApplicationFacts
    ref_problem: RefProblem | None
    profile: ProfileFacts | None
    programming: Programming
    refusal: str = ""
    reach: Reach = Reach.YES
    pool: PoolState | None = None
    figures: Figures | None = None
    last_job: JobRecord | None = None
    #: The active one, as far as it has been listed.
    model: ModelFacts | None = None
    #: A training that is due and has no Job yet; ``job_refusal``: why it could not be created.
    due: Due | None = None
    job_refusal: str = ""


class Verdict(NamedTuple):
    """What a check says."""

    status: str
    reason: Reason | str
    message: str = ""


Check = Callable[[Inputs, Type], Verdict | None]


def build_conditions(inputs: Inputs) -> tuple[Condition, ...]:
    """Decide every condition; dates and generations come later (``conditions.merge``)."""
    return tuple(_decide(type_, chain, inputs) for type_, chain in CHAINS.items())


def _decide(type_: Type, chain: tuple[Check, ...], inputs: Inputs) -> Condition:
    for check in chain:
        verdict = check(inputs, type_)
        if verdict is not None:
            message = verdict.message[:_MAX_MESSAGE_CHARS]
            return Condition(
                type=type_, status=verdict.status, reason=verdict.reason, message=message
            )
    raise AssertionError(f"the last check of {type_} must always decide")


# -- shared ----------------------------------------------------------------------------------------


def _still_stands(inputs: Inputs, type_: Type) -> Verdict | None:
    """Keep what was said while the service is away for a moment: nothing is known to differ."""
    if inputs.reach is not Reach.BRIEFLY_NOT:
        return None
    for condition in inputs.application.conditions:
        is_current = condition.observed_generation == inputs.application.meta.generation
        if condition.type == type_ and is_current and condition.reason:
            return Verdict(condition.status, condition.reason, condition.message)
    return None


def _is_out_of_reach(inputs: Inputs, _: Type) -> Verdict | None:
    if inputs.reach is Reach.YES and inputs.programming is not Programming.UNKNOWN:
        return None
    return Verdict(
        UNKNOWN, Reason.SCHEDULER_UNREACHABLE, "the scheduler service does not answer; see its pods"
    )


def _is_not_programmed(inputs: Inputs, _: Type) -> Verdict | None:
    is_lost = inputs.application.spec is None or inputs.programming in (
        Programming.NOT,
        Programming.REFUSED,
        Programming.ELSEWHERE,
    )
    return Verdict(UNKNOWN, Reason.NOT_PROGRAMMED, "see Ready") if is_lost else None


# -- Ready and ResolvedRefs ------------------------------------------------------------------------


def _is_invalid(inputs: Inputs, _: Type) -> Verdict | None:
    if inputs.application.spec is not None:
        return None
    return Verdict(FALSE, Reason.INVALID_SPEC, inputs.application.problem)


def _has_unresolved_refs(inputs: Inputs, _: Type) -> Verdict | None:
    problem = inputs.ref_problem
    return problem and Verdict(FALSE, Reason.REFS_NOT_RESOLVED, problem.message)


def _is_elsewhere(inputs: Inputs, _: Type) -> Verdict | None:
    if inputs.programming is not Programming.ELSEWHERE:
        return None
    return Verdict(FALSE, Reason.DECLARED_ELSEWHERE, inputs.refusal)


def _is_refused(inputs: Inputs, _: Type) -> Verdict | None:
    if inputs.programming is not Programming.REFUSED:
        return None
    return Verdict(FALSE, Reason.REFUSED, inputs.refusal)


def _is_programmed(_: Inputs, __: Type) -> Verdict:
    return Verdict(TRUE, Reason.PROGRAMMED, "the scheduler service holds this generation")


def _is_unresolved(inputs: Inputs, _: Type) -> Verdict | None:
    problem = inputs.ref_problem
    return problem and Verdict(FALSE, problem.reason, problem.message)


def _is_resolved(_: Inputs, __: Type) -> Verdict:
    return Verdict(TRUE, Reason.RESOLVED)


# -- PredictorReady --------------------------------------------------------------------------------


def _wants_no_predictor(inputs: Inputs, _: Type) -> Verdict | None:
    if inputs.application.spec is None or inputs.application.profile is not None:
        return None
    return Verdict(TRUE, Reason.NOT_REQUESTED, "estimates come from finished runs")


def _misses_profile(inputs: Inputs, _: Type) -> Verdict | None:
    if inputs.application.profile is None or inputs.profile is not None:
        return None
    return Verdict(
        FALSE,
        Reason.PROFILE_NOT_FOUND,
        f"there is no PredictorProfile {inputs.application.profile}",
    )


def _has_model(inputs: Inputs, _: Type) -> Verdict | None:
    version = inputs.figures.model_version if inputs.figures else ""
    if not version:
        return None
    message = f"model {version[:12]} predicts"
    if inputs.last_job is not None and inputs.last_job.outcome is JobOutcome.FAILED:
        message += f"; the last training failed: {_why(inputs.last_job)}"
    elif _is_passed_over(inputs.last_job, inputs.model):
        message += "; the model of the last training is not in use: see `justitia models list`"
    return Verdict(TRUE, Reason.MODEL_ACTIVE, message)


def _is_passed_over(job: JobRecord | None, model: ModelFacts | None) -> bool:
    """Whether the last training ended well and an older model is active."""
    if job is None or model is None or job.outcome is not JobOutcome.SUCCEEDED:
        return False
    return bool(model.published_at and job.started_at) and is_without_effect(job, model)


def _has_invalid_profile(inputs: Inputs, _: Type) -> Verdict | None:
    profile = inputs.profile
    if profile is None or profile.spec is not None:
        return None
    return Verdict(FALSE, Reason.PROFILE_INVALID, f"{profile.meta.key}: {profile.problem}")


def _withholds_prompts(inputs: Inputs, _: Type) -> Verdict | None:
    if inputs.profile is None or not is_withheld(inputs.application):
        return None
    return Verdict(
        FALSE,
        Reason.PROMPTS_WITHHELD,
        "spec.predictor.privacy: with None no prompt is there to learn or to predict from",
    )


def _is_training(inputs: Inputs, _: Type) -> Verdict | None:
    job = inputs.last_job
    if job is None or job.is_over:
        return None
    stuck = f": {_why(job)}" if job.message or job.reason else ""
    return Verdict(FALSE, Reason.TRAINING_RUNS, f"Job {job.name}{stuck}")


def _is_refused_a_job(inputs: Inputs, _: Type) -> Verdict | None:
    if not inputs.job_refusal:
        return None
    return Verdict(FALSE, Reason.TRAINING_REFUSED, inputs.job_refusal)


def _is_waiting(inputs: Inputs, _: Type) -> Verdict | None:
    if inputs.due is None:
        return None
    return Verdict(FALSE, Reason.WAITING_FOR_JOB, inputs.due.why)


def _has_failed(inputs: Inputs, _: Type) -> Verdict | None:
    job = inputs.last_job
    if job is None or job.outcome is not JobOutcome.FAILED:
        return None
    return Verdict(FALSE, Reason.TRAINING_FAILED, f"Job {job.name}: {_why(job)}")


def _published_nothing(inputs: Inputs, _: Type) -> Verdict | None:
    job = inputs.last_job
    if job is None or job.outcome is not JobOutcome.SUCCEEDED:
        return None
    return Verdict(
        FALSE,
        Reason.NOTHING_PUBLISHED,
        f"Job {job.name} ended well, but no model is active; see its log",
    )


def _is_collecting(inputs: Inputs, _: Type) -> Verdict:
    spec = None if inputs.profile is None else inputs.profile.spec
    samples = 0 if inputs.figures is None else inputs.figures.samples
    wanted = 0 if spec is None else spec.training.min_samples
    return Verdict(
        FALSE,
        Reason.COLLECTING_SAMPLES,
        f"{samples} of {wanted} finished runs with a prompt are recorded; a run's prompt comes"
        " with StartRun, not with its headers",
    )


def _why(job: JobRecord) -> str:
    return ": ".join(part for part in (job.reason, job.message) if part) or "no reason was given"


# -- PolicyEffective -------------------------------------------------------------------------------


def _asks_for_more(inputs: Inputs, _: Type) -> Verdict | None:
    spec = inputs.application.spec
    if spec is not None and spec.failure_mode is FailureMode.FAIL_CLOSE:
        return Verdict(
            FALSE,
            Reason.NOT_ENFORCED,
            "spec.failureMode: FailClose has no effect in this version; inferences are served as"
            " with FailOpen",
        )
    if spec is not None and spec.identity.credentials:
        return Verdict(
            FALSE,
            Reason.NOT_ENFORCED,
            "spec.identity.credentials: has no effect in this version; the header"
            " x-justitia-application alone names the application",
        )
    return None


def _has_no_engines(inputs: Inputs, _: Type) -> Verdict | None:
    if inputs.pool is not None and inputs.pool.policies:
        return None
    return Verdict(
        UNKNOWN, Reason.NO_ENGINES, f"no engine of pool {inputs.application.pool} is connected"
    )


def _has_other_policy(inputs: Inputs, _: Type) -> Verdict | None:
    policies = {} if inputs.pool is None else inputs.pool.policies
    others = sorted(name for name, policy in policies.items() if policy != POLICY)
    if not others:
        return None
    first, several = others[0], f"; {len(others)} do so" if len(others) > 1 else ""
    return Verdict(
        FALSE,
        Reason.ENGINE_POLICY_DIFFERS,
        f"engine {first} serves in the order of {policies[first]!r}, not of {POLICY!r}{several}",
    )


def _has_other_mode(inputs: Inputs, _: Type) -> Verdict | None:
    spec, pool = inputs.application.spec, inputs.pool
    wants_shadow = spec is not None and spec.mode is Mode.SHADOW
    if pool is None or pool.is_shadow == wants_shadow:
        return None
    if wants_shadow:
        return Verdict(
            FALSE,
            Reason.POOL_ENFORCES,
            "spec.mode: the pool's order is in force, since not all of its applications ask for"
            " Shadow",
        )
    return Verdict(FALSE, Reason.POOL_IN_SHADOW, "spec.mode: the pool only computes the order")


def _is_in_force(_: Inputs, __: Type) -> Verdict:
    return Verdict(TRUE, Reason.IN_FORCE)


# -- FairnessObjectiveMet --------------------------------------------------------------------------


def _has_no_objective(inputs: Inputs, _: Type) -> Verdict | None:
    spec = inputs.application.spec
    if spec is None or spec.fairness.objective is not None:
        return None
    return Verdict(TRUE, Reason.NO_OBJECTIVE)


def _is_judged(inputs: Inputs, _: Type) -> Verdict:
    """Repeat the service's verdict: the alert reads the same one."""
    figures = inputs.figures or Figures()
    spec = inputs.application.spec
    objective = None if spec is None else spec.fairness.objective
    limit = "" if objective is None else decimal_text(float(objective.max_ratio))
    if figures.verdict == "missed":
        # The one message with a number that moves: it is rewritten with the figures, and only then.
        ratio = decimal_text(figures.ratio_recent)
        message = f"the 90th percentile of recent fair ratios is {ratio}, above {limit}"
        return Verdict(FALSE, Reason.OBJECTIVE_MISSED, message)
    if figures.verdict == "met":
        return Verdict(TRUE, Reason.OBJECTIVE_MET, f"the objective is {limit}")
    return Verdict(UNKNOWN, Reason.TOO_FEW_RUNS, "too few runs have finished lately")


_SERVICE_GATE: Final[tuple[Check, ...]] = (_is_not_programmed, _still_stands, _is_out_of_reach)

CHAINS: Final[Mapping[Type, tuple[Check, ...]]] = MappingProxyType(
    {
        Type.READY: (
            _is_invalid,
            _has_unresolved_refs,
            _is_elsewhere,
            _is_refused,
            _still_stands,
            _is_out_of_reach,
            _is_programmed,
        ),
        Type.RESOLVED_REFS: (_is_invalid, _is_unresolved, _is_resolved),
        Type.PREDICTOR_READY: (
            _wants_no_predictor,
            _misses_profile,
            *_SERVICE_GATE,
            _has_model,
            _has_invalid_profile,
            _withholds_prompts,
            _is_training,
            _is_refused_a_job,
            _is_waiting,
            _has_failed,
            _published_nothing,
            _is_collecting,
        ),
        Type.POLICY_EFFECTIVE: (
            *_SERVICE_GATE,
            _asks_for_more,
            _has_no_engines,
            _has_other_policy,
            _has_other_mode,
            _is_in_force,
        ),
        Type.FAIRNESS_OBJECTIVE_MET: (_has_no_objective, *_SERVICE_GATE, _is_judged),
    }
)
