"""What the runs of one engine have got, as its policy and its pool hear of it."""

from justitia.core.engines import EngineReport, RunReport
from justitia.core.policies import Policy, Service
from justitia.core.queue import InferenceQueue
from justitia.sim.fast.sequence import RunAccount, Sequence


class Books:
    """Accounts of the runs that an engine serves."""

    def __init__(self, engine_id: str, policy: Policy, queue: InferenceQueue) -> None:
        self._engine_id = engine_id
        self._policy = policy
        self._queue = queue
        self._accounts: dict[str, RunAccount] = {}
        #: Those of which something runs; also those that stopped since the policy was told.
        self.served: dict[RunAccount, None] = {}
        # Those of which something has come, gone, or changed places since the last report.
        self._changed: dict[RunAccount, None] = {}
        self._closed: list[str] = []
        self._num_reports = 0
        #: Whether the order of service depends on what runs have got.
        self.counts = policy.counts_tokens or policy.counts_kvtt

    def account(self, run_id: str) -> RunAccount:
        """Look up a run's account; opens it."""
        account = self._accounts.get(run_id)
        if account is None:
            account = self._accounts[run_id] = RunAccount(run_id)
        return account

    def close(self, run_id: str) -> None:
        """Forget a run; the next report says so."""
        account = self._accounts.pop(run_id, None)
        if account is not None:
            self.served.pop(account, None)
            self._changed.pop(account, None)
            self._closed.append(run_id)

    # -- life of an inference ----------------------------------------------------

    def arrived(self, sequence: Sequence) -> None:
        """It waits."""
        sequence.account.num_waiting += 1
        self._changed[sequence.account] = None

    def admitted(self, sequence: Sequence) -> None:
        """It is computed from now on."""
        account = sequence.account
        account.num_waiting -= 1
        account.num_running += 1
        self.served[account] = self._changed[account] = None

    def preempted(self, sequence: Sequence) -> None:
        """It waits again."""
        self._stop(sequence.account)
        sequence.account.num_waiting += 1

    def ended(self, sequence: Sequence, now_s: float) -> None:
        """It is done."""
        self._stop(sequence.account)
        sequence.account.finished.append(sequence.times(now_s))

    def _stop(self, account: RunAccount) -> None:
        account.num_running -= 1
        self._changed[account] = None
        if not account.num_running and not self.counts:
            del self.served[account]

    def charge_prefill(self, sequence: Sequence, held: int, paid: int) -> None:
        """Charge a step of a prefill: ``held`` tokens are computed by then, ``paid`` are its own.

        What only computes again what was thrown away is wasted (rule C4).
        """
        if held > sequence.mark:
            sequence.mark = held
            sequence.account.useful_kvtt += paid
            sequence.useful_kvtt += paid
        else:
            sequence.account.wasted_kvtt += paid

    # -- who is told ----------------------------------------------------

    def tell_prompt(self, sequence: Sequence) -> None:
        """Tell the policy of an inference that is admitted for the first time."""
        if self._policy.counts_tokens:
            self._charge(sequence.account.run_id, Service(prompt_tokens=sequence.prompt))

    def tell(self, planned_tick: int, done_tick: int) -> None:
        """Tell the policy what runs have got: kvtt of the steps planned, tokens of those done."""
        if self.counts:
            for account in list(self.served):
                self._tell(account, planned_tick, done_tick)
                if not account.num_running:
                    del self.served[account]

    def _tell(self, account: RunAccount, planned_tick: int, done_tick: int) -> None:
        kvtt = tokens = 0
        if self._policy.counts_kvtt:
            kvtt = account.useful_at(planned_tick) - account.told_kvtt
            account.told_kvtt += kvtt
        if self._policy.counts_tokens:
            tokens = account.tokens_at(done_tick) - account.told_tokens
            account.told_tokens += tokens
        if kvtt or tokens:
            self._charge(account.run_id, Service(output_tokens=tokens, useful_kvtt=kvtt))

    def _charge(self, run_id: str, service: Service) -> None:
        if self._policy.charge(run_id, service):
            self._queue.refresh(run_id)

    def report(self, planned_tick: int, steps: int, kv_used_tokens: int) -> EngineReport:
        """Say what the runs have got that were served or have changed since the last report."""
        self._num_reports += 1
        runs = tuple(
            self._report(account, planned_tick) for account in {**self.served, **self._changed}
        )
        closed, self._closed = tuple(self._closed), []
        self._changed.clear()
        return EngineReport(
            self._engine_id, "1", self._num_reports, steps, runs, closed, kv_used_tokens
        )

    @staticmethod
    def _report(account: RunAccount, planned_tick: int) -> RunReport:
        finished, account.finished = account.finished, []
        return RunReport(
            account.run_id,
            account.useful_at(planned_tick),
            account.wasted_kvtt,
            account.num_waiting,
            account.num_running,
            tuple(finished),
        )
