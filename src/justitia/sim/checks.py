"""What of a scenario can't be played, told before anything is."""

from justitia.core.errors import InvalidValueError
from justitia.sim.scenario import RunPlan, Scenario


def check_scenario(scenario: Scenario) -> None:
    """Refuse what can't be played.

    Raises:
        InvalidValueError: no engine, runs out of order or of one name, a pin to an engine that does
            not exist, or an inference that some engine has no room for.
    """
    if not scenario.engines:
        raise InvalidValueError("engines", "must list at least one")
    most = min(min(e.kv_capacity_tokens, e.max_model_len_tokens) for e in scenario.engines)
    seen: set[str] = set()
    last_s = 0.0
    for run in scenario.runs:
        if run.id in seen:
            raise InvalidValueError(f"run {run.id}", "comes twice")
        if run.arrival_s < last_s:
            raise InvalidValueError(f"run {run.id}: arrival_s", "runs must be in order of arrival")
        if not 0 <= scenario.engine_of_run.get(run.id, 0) < len(scenario.engines):
            raise InvalidValueError(f"run {run.id}: engine", "there is no such engine")
        _check_room(run, most)
        seen.add(run.id)
        last_s = run.arrival_s


def _check_room(run: RunPlan, most_tokens: int) -> None:
    for place, inference in enumerate(run.inferences):
        tokens = inference.prompt_tokens + inference.output_tokens
        if tokens > most_tokens:
            raise InvalidValueError(
                f"run {run.id}: inference {place}",
                f"takes {tokens} tokens, but an engine has room for {most_tokens}",
            )
