"""What policies have in common that order applications, not runs."""

from justitia.core.policies.base import Key, Policy


class ByApplication(Policy):
    """All that waits of an application shares a key, and is served in order of arrival.

    What a run waits as is settled when its first inference waits: as its application's, or, where
    the policy does not know it, as a run of its own that is served at once. It stays so, even if
    the run starts, ends or changes its application, until nothing of it waits. Applications are
    few, so what is kept of them is not forgotten with their runs.
    """

    def __init__(self) -> None:
        self._application: dict[str, str] = {}
        self._waits_as: dict[str, str | None] = {}
        self._num_waiting_runs: dict[str, int] = {}

    def start_run(self, run_id: str, sequence: int) -> None:  # noqa: ARG002 - as in Policy
        """It is of the application without a name until that is known."""
        self._application.setdefault(run_id, "")

    def set_application(self, run_id: str, application: str) -> None:
        """Note it."""
        if run_id in self._application:
            self._application[run_id] = application

    def end_run(self, run_id: str) -> None:
        """Forget it."""
        self._application.pop(run_id, None)

    def activate(self, run_id: str, least_waiting: Key | None) -> bool:  # noqa: ARG002 - as in Policy
        """Settle what it waits as."""
        if run_id in self._waits_as:
            return False
        application = self._waits_as[run_id] = self._application.get(run_id)
        if application is None:
            return False
        number = self._num_waiting_runs[application] = self._num_waiting(application) + 1
        if number == 1:
            self.application_waits(application)
        return True

    def deactivate(self, run_id: str) -> None:
        """Count it out."""
        application = self._waits_as.pop(run_id, None)
        if application is None:
            return
        number = self._num_waiting_runs.pop(application) - 1
        if number:
            self._num_waiting_runs[application] = number

    def _num_waiting(self, application: str) -> int:
        return self._num_waiting_runs.get(application, 0)

    def application_of(self, run_id: str) -> str | None:
        """What a run waits as, or would; None: as itself."""
        if run_id in self._waits_as:
            return self._waits_as[run_id]
        return self._application.get(run_id)

    def application_waits(self, application: str) -> None:
        """Something of it waits, after nothing did."""

    def flow(self, run_id: str) -> str:
        """Its application's, or its own."""
        application = self.application_of(run_id)
        return f"run {run_id}" if application is None else self.flow_of(application)

    @staticmethod
    def flow_of(application: str) -> str:
        """Name of an application's flow."""
        return f"application {application}"
