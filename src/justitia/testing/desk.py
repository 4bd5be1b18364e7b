"""A queue with its policy on a desk: the test says what waits, is served and is popped."""

from typing import Any

from justitia.core.policies import EVERY_POLICY, Inference, Policy, Service, make_policy
from justitia.core.queue import InferenceQueue
from justitia.testing.builders import make_inference


class Desk:
    """Runs are numbered in the order in which they start, inferences in that in which they come."""

    def __init__(self, policy: str | Policy) -> None:
        self.policy = make_policy(policy, among=EVERY_POLICY) if isinstance(policy, str) else policy
        self.queue = InferenceQueue(self.policy)
        self._num_runs = self._num_inferences = 0

    def start(
        self, run_id: str, application: str = "", cost_kvtt: int = 0, finish: int = 0
    ) -> None:
        """Start a run of which nothing waits yet."""
        self.policy.start_run(run_id, self._num_runs)
        self.policy.set_application(run_id, application)
        self.policy.set_cost(run_id, cost_kvtt)
        self.policy.set_finish(run_id, finish, self._num_runs)
        self._num_runs += 1

    def wait(self, run_id: str, name: str = "", **others: int) -> None:
        """Queue an inference."""
        number = self._num_inferences = self._num_inferences + 1
        self.queue.add(make_inference(name or f"{run_id}/{number}", run_id, number, **others))

    def charge(self, run_id: str, *tokens: int, **others: int) -> None:
        """Tell the policy that a run was served: prompt tokens, output tokens."""
        if self.policy.charge(run_id, Service(*tokens, **others)):
            self.queue.refresh(run_id)

    def pop(self) -> Inference:
        """Take the next."""
        return self.queue.pop()

    def drain(self) -> list[str]:
        """Pop all; returns their names."""
        return [self.pop().inference_id for _ in range(len(self.queue))]

    def runs(self, number: int) -> str:
        """Pop some; returns their runs, whose names are letters."""
        return "".join(self.pop().run_id for _ in range(number))

    def key_of(self, run_id: str) -> tuple[int, ...]:
        """Key of a run's plainest inference."""
        return self.policy.key(make_inference(run_id=run_id))


def desk_with(policy: str | Policy, *run_ids: str, each: int = 0, **others: Any) -> Desk:
    """Make a desk with runs, each of an application of its name, and so many inferences of each."""
    desk = Desk(policy)
    for run_id in run_ids:
        desk.start(run_id, application=run_id)
    for run_id in run_ids:
        for _ in range(each):
            desk.wait(run_id, **others)
    return desk
