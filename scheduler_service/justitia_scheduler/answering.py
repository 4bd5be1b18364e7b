"""The shell around every RPC: errors become status codes, bugs are logged, nothing else happens."""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

import grpc
import structlog

from justitia.core.errors import CoreError
from justitia.predictor.artefact import ArtefactError
from justitia_scheduler.metrics import Metrics
from justitia_scheduler.outcomes import STATUS, CallError, Outcome, outcome_of

_log = structlog.get_logger()

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Counted(Protocol):
    """A servicer that counts refusals."""

    metrics: Metrics


S = TypeVar("S", bound=Counted)
Q = TypeVar("Q")
R = TypeVar("R")


def answered(
    method: Callable[[S, Q, Context], Awaitable[R]],
) -> Callable[[S, Q, Context], Awaitable[R]]:
    """Wrap a method that returns one message."""

    @functools.wraps(method)
    async def wrapper(self: S, request: Q, context: Context) -> R:
        try:
            return await method(self, request, context)
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            await _refuse(self, error, context, method.__name__)
            raise

    return wrapper


def streamed(
    method: Callable[[S, Q, Context], AsyncIterator[R]],
) -> Callable[[S, Q, Context], AsyncIterator[R]]:
    """Wrap a method that yields messages."""

    @functools.wraps(method)
    async def wrapper(self: S, request: Q, context: Context) -> AsyncIterator[R]:
        try:
            async for message in method(self, request, context):
                yield message
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            await _refuse(self, error, context, method.__name__)
            raise

    return wrapper


async def _refuse(servicer: Counted, error: Exception, context: Context, call: str) -> None:
    """Abort the call with the status of its error; never returns."""
    outcome = Outcome.INVALID if isinstance(error, ArtefactError) else outcome_of(error)
    message: Any = str(error)
    if not isinstance(error, CallError | CoreError | ArtefactError):
        _log.error("a call failed", call=call, exc_info=error)
        message = "internal error; the service's log has the details"
    servicer.metrics.count(servicer.metrics.calls, outcome)
    await context.abort(STATUS[outcome], message)
