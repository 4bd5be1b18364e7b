"""Has the scheduler service hold what it should, and says what came of it."""

import structlog

from justitia_operator.checks import Inputs, Programming
from justitia_operator.facts import ApplicationFacts, Declared, Key, PoolState, Reach
from justitia_operator.metrics import Metrics
from justitia_operator.program import (
    Action,
    Plan,
    References,
    Slot,
    check_references,
    plan_application,
    service_name,
)
from justitia_operator.scheduler import AwayError, RefusedError, SchedulerLink

_log = structlog.get_logger()


class Programmer:
    """Carries out plans. ``owner``: see ``settings``."""

    def __init__(self, link: SchedulerLink, owner: str, metrics: Metrics) -> None:
        self._link = link
        self._owner = owner
        self._metrics = metrics

    async def program(self, application: ApplicationFacts, references: References) -> Inputs:
        """Carry out what is to be done about an application; never raises for the service."""
        plan = plan_application(
            self._owner, application, references, self._held, self.slots_of(application.meta.key)
        )
        programming, refusal = await self._carry_out(plan, application)
        slot = slot_of(application)
        declared = None if slot is None else self._held.get(slot)
        in_force = declared if programming is Programming.IN_FORCE else None
        problem = None
        if application.spec is not None:
            is_declared = declared is not None
            problem = check_references(application, references, is_declared=is_declared)
        return Inputs(
            application=application,
            ref_problem=problem,
            profile=references.profile,
            programming=programming,
            refusal=refusal,
            reach=self._link.reach,
            pool=None if in_force is None else await self._pool_state(in_force.program.pool),
            figures=None if in_force is None else in_force.figures,
        )

    async def forget(self, key: Key) -> None:
        """Have the service forget an application that is gone.

        Raises:
            AwayError, RefusedError: the service did not.
        """
        for slot in self.slots_of(key):
            await self.remove(slot)

    async def remove(self, slot: Slot) -> None:
        """Have the service forget what it holds at a place."""
        await self._link.delete(slot)
        self._metrics.programs.labels("DeleteApplication").inc()
        _log.info("removed", pool=slot.pool, application=slot.name)

    def slots_of(self, key: Key) -> list[Slot]:
        """Find what the service holds under our mark for a namespace and name."""
        return [] if self._link.view is None else self._link.view.slots_of(self._owner, key)

    @property
    def _held(self) -> dict[Slot, Declared]:
        return {} if self._link.view is None else self._link.view.held

    async def _carry_out(
        self, plan: Plan, application: ApplicationFacts
    ) -> tuple[Programming, str]:
        is_wanted = plan.action in (Action.APPLY, Action.KEEP)
        if self._link.view is None:
            # What the service holds is not known yet; the first listing looks at all again.
            return (Programming.UNKNOWN if is_wanted else Programming.NOT), ""
        try:
            for slot in plan.removed_first:
                await self.remove(slot)
            if plan.action is Action.APPLY and plan.program is not None:
                await self._link.apply(plan.program)
                self._metrics.programs.labels("ApplyApplication").inc()
                _log.info("programmed", application=str(application.meta.key))
            for slot in plan.removed_after:
                await self.remove(slot)
        except AwayError:
            return Programming.UNKNOWN, ""
        except RefusedError as error:
            return Programming.REFUSED, str(error)
        if is_wanted:
            is_known = plan.action is Action.KEEP or self._link.reach is Reach.YES
            return (Programming.IN_FORCE if is_known else Programming.UNKNOWN), ""
        return self._elsewhere(plan)

    def _elsewhere(self, plan: Plan) -> tuple[Programming, str]:
        if plan.program is None:
            return Programming.NOT, ""
        held = self._held.get(Slot(plan.program.pool, plan.program.name))
        owner = "" if held is None else held.program.declared_by
        message = (
            f"pool {plan.program.pool} has an application {plan.program.name!r} that is kept by"
            f" {owner!r}; delete it there or give this one another name"
        )
        return Programming.ELSEWHERE, message

    async def _pool_state(self, name: str) -> PoolState | None:
        if self._link.view is not None and name in self._link.view.pools:
            return self._link.view.pools[name]
        try:
            return await self._link.describe(name)
        except (AwayError, RefusedError):
            return None


def slot_of(application: ApplicationFacts) -> Slot | None:
    """Say where the service keeps an application; None for a spec that was refused."""
    if application.spec is None:
        return None
    return Slot(str(application.pool), service_name(application))
