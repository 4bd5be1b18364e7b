"""The blocking client, for the command line and for whatever declares applications."""

from typing import TYPE_CHECKING, Any, Final, Self

from justitia.client.connection import api, told
from justitia.client.prompts import PromptPolicy
from justitia.client.runs import start_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from justitia.api.v1 import admin_pb2, run_pb2, training_pb2

_PAGE_SIZE: Final = 500


class Client:
    """All of the service's calls, blocking. Close it or use ``with``."""

    def __init__(
        self,
        address: str,
        channel: Any,
        timeout_s: float,
        prompts: PromptPolicy | None = None,
    ) -> None:
        self.address = address
        self._prompts = prompts or PromptPolicy()
        self._channel = channel
        self._timeout_s = timeout_s
        self._runs = api("run_pb2_grpc").RunServiceStub(channel)
        self._admin = api("admin_pb2_grpc").AdminServiceStub(channel)
        self._training = api("training_pb2_grpc").TrainingServiceStub(channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    # -- runs --------------------------------------------------------------------------------------

    def start_run(
        self,
        *,
        application: str = "",
        prompt: str = "",
        cost_kvtt: float | None = None,
        run_id: str = "",
        pool: str = "",
    ) -> "run_pb2.Run":
        """Open a run; an empty ``run_id`` lets the service make one."""
        told_of = self._prompts.fields(prompt)
        request = start_request(application, told_of, cost_kvtt, run_id, pool)
        answer: run_pb2.Run = self._call(self._runs.StartRun, request)
        return answer

    def end_run(self, run_id: str, *, pool: str = "") -> "run_pb2.Run":
        """Close a run."""
        request = api("run_pb2").EndRunRequest(pool=pool, run_id=run_id)
        answer: run_pb2.Run = self._call(self._runs.EndRun, request)
        return answer

    def get_run(self, run_id: str, *, pool: str = "") -> "run_pb2.Run":
        """Look at a run."""
        request = api("run_pb2").GetRunRequest(pool=pool, run_id=run_id)
        answer: run_pb2.Run = self._call(self._runs.GetRun, request)
        return answer

    def list_runs(self, *, pool: str = "", application: str = "") -> "Iterator[run_pb2.Run]":
        """Yield open runs in the order of service, fetching page by page."""
        token = ""
        while True:
            request = api("run_pb2").ListRunsRequest(
                pool=pool, application=application, page_size=_PAGE_SIZE, page_token=token
            )
            page = self._call(self._runs.ListRuns, request)
            yield from page.runs
            token = page.next_page_token
            if not token:
                return

    def watch_runs(self, *, pool: str = "", application: str = "") -> "Iterator[run_pb2.RunEvent]":
        """Yield what is open, then every change, until the caller stops."""
        request = api("run_pb2").WatchRunsRequest(pool=pool, application=application)
        with told(self.address):
            yield from self._runs.WatchRuns(request)

    def explain_run(self, run_id: str, *, pool: str = "") -> "run_pb2.ExplainRunResponse":
        """Ask why a run waits."""
        request = api("run_pb2").ExplainRunRequest(pool=pool, run_id=run_id)
        answer: run_pb2.ExplainRunResponse = self._call(self._runs.ExplainRun, request)
        return answer

    # -- applications and pools --------------------------------------------------------------------

    def apply_application(self, application: "admin_pb2.Application") -> "admin_pb2.Application":
        """Declare an application or replace what was declared."""
        request = api("admin_pb2").ApplyApplicationRequest(application=application)
        answer: admin_pb2.Application = self._call(self._admin.ApplyApplication, request)
        return answer

    def delete_application(self, name: str, *, pool: str = "") -> None:
        """Remove an application; what is not there is gone already."""
        request = api("admin_pb2").DeleteApplicationRequest(pool=pool, name=name)
        self._call(self._admin.DeleteApplication, request)

    def list_applications(self, *, pool: str = "") -> "list[admin_pb2.Application]":
        """Show the declared applications with what became of their runs."""
        request = api("admin_pb2").ListApplicationsRequest(pool=pool)
        return list(self._call(self._admin.ListApplications, request).applications)

    def describe_pool(self, name: str = "") -> "admin_pb2.Pool":
        """Show a pool and its engines."""
        request = api("admin_pb2").DescribePoolRequest(pool=name)
        answer: admin_pb2.Pool = self._call(self._admin.DescribePool, request)
        return answer

    def set_pool_mode(self, name: str = "", *, is_shadow: bool) -> "admin_pb2.Pool":
        """Put the order in force, or only measure."""
        modes = api("common_pb2")
        mode = modes.POOL_MODE_SHADOW if is_shadow else modes.POOL_MODE_ENFORCE
        request = api("admin_pb2").SetPoolModeRequest(pool=name, mode=mode)
        answer: admin_pb2.Pool = self._call(self._admin.SetPoolMode, request)
        return answer

    # -- training ----------------------------------------------------------------------------------

    def export_samples(
        self, *, pool: str = "", application: str = "", max_samples: int = 0
    ) -> "Iterator[training_pb2.Sample]":
        """Yield recorded runs, oldest first; 0: all of them."""
        request = api("training_pb2").ExportSamplesRequest(
            pool=pool, application=application, max_samples=max_samples
        )
        with told(self.address):
            yield from self._training.ExportSamples(request)

    def publish_model(
        self,
        application: str,
        artefact: bytes,
        *,
        pool: str = "",
        held_out: "Iterable[training_pb2.HeldOutRun]" = (),
        is_forced: bool = False,
    ) -> "training_pb2.Model":
        """Store a model, and make it the application's active one unless it is worse.

        ``held_out``: what training held out, which the comparison rests on. ``is_forced``: without
        a comparison. The answer says whether it is active, and why.
        """
        messages = api("training_pb2")
        how = messages.ACTIVATION_ALWAYS if is_forced else messages.ACTIVATION_UNLESS_WORSE
        request = messages.PublishModelRequest(
            pool=pool,
            application=application,
            artefact=artefact,
            activation=how,
            held_out=held_out,
        )
        answer: training_pb2.Model = self._call(self._training.PublishModel, request)
        return answer

    def list_models(self, *, pool: str = "", application: str = "") -> "list[training_pb2.Model]":
        """Show the stored models, oldest first."""
        request = api("training_pb2").ListModelsRequest(pool=pool, application=application)
        return list(self._call(self._training.ListModels, request).models)

    def activate_model(
        self, application: str, version: str, *, pool: str = ""
    ) -> "training_pb2.Model":
        """Make a stored model the active one; the first 8 characters of a version do."""
        request = api("training_pb2").ActivateModelRequest(
            pool=pool, application=application, version=version
        )
        answer: training_pb2.Model = self._call(self._training.ActivateModel, request)
        return answer

    def deactivate_model(self, application: str, *, pool: str = "") -> str:
        """Leave an application without an active model; returns the one that was, if any."""
        request = api("training_pb2").DeactivateModelRequest(pool=pool, application=application)
        version: str = self._call(self._training.DeactivateModel, request).version
        return version

    def _call(self, method: Any, request: Any) -> Any:
        with told(self.address):
            return method(request, timeout=self._timeout_s)
