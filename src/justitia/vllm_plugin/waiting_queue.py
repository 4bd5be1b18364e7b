"""vLLM's waiting queue in the order of a policy.

One of these stands for each queue of the scheduler.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from vllm.v1.core.sched.request_queue import RequestQueue

from justitia.core.policies import Inference, Policy, make_policy
from justitia.core.queue import InferenceQueue


class Order(Protocol):
    """Who decides the order (``EngineController``)."""

    policy: Policy

    @property
    def is_stock_order(self) -> bool:
        """Whether vLLM's own order is wanted."""

    def inference(self, inference_id: str) -> Inference:
        """Describe a request."""

    def rank(self, inference: Inference) -> int:
        """Place of a request among all."""


class PolicyQueue(RequestQueue):  # type: ignore[misc] # vLLM is untyped here
    """A ``RequestQueue`` over ``InferenceQueue``.

    In vLLM's own order it is a double-ended queue, like vLLM's: what is prepended stands in front.
    In the order of a policy a request has its place, so prepending is adding. An error of our own
    never reaches vLLM: ``on_error`` is told, and the queue goes on in arrival order.
    """

    def __init__(self, order: Order, on_error: Callable[[Exception], None]) -> None:
        self._order = order
        self._on_error = on_error
        self._requests: dict[str, Any] = {}
        self._front = 0
        self._back = 0
        self._peeked: Any = None
        self._queue = self._new_queue()

    def _new_queue(self) -> InferenceQueue:
        is_stock = self._order.is_stock_order
        return InferenceQueue(make_policy("fcfs") if is_stock else self._order.policy)

    # -- what vLLM calls ----------------------------------------------------

    def add_request(self, request: Any) -> None:
        """Queue a request; one that is queued already stays where it is."""
        self._back += 1
        self._add(request, self._back)

    def prepend_request(self, request: Any) -> None:
        """Queue a request in front, or at its place."""
        self._front -= 1
        self._add(request, self._front)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """Queue several in front; the last one comes out first, as with vLLM's own queue."""
        for request in list(requests):
            self.prepend_request(request)

    def peek_request(self) -> Any:
        """Look at the next request.

        Raises:
            IndexError: the queue is empty.
        """
        if not self._requests:
            raise IndexError("peek from an empty queue")
        try:
            head = self._queue.peek()
            request = None if head is None else self._requests[head.inference_id]
        except Exception as error:  # noqa: BLE001 - nothing of ours may end a step
            request = self._recover(error)
        self._peeked = request if request is not None else next(iter(self._requests.values()))
        return self._peeked

    def pop_request(self) -> Any:
        """Take the next request: the one that was shown last, if it still waits.

        Raises:
            IndexError: the queue is empty.
        """
        request = self._peeked
        if request is None or self._requests.get(request.request_id) is not request:
            request = self.peek_request()
        self._rank(request)
        self._remove(request)
        return request

    def remove_request(self, request: Any) -> None:
        """Take a request out.

        Raises:
            ValueError: it does not wait here.
        """
        if not self._remove(request):
            raise ValueError(f"request {request.request_id} does not wait here")

    def remove_requests(self, requests: Iterable[Any]) -> None:
        """Take out those of the requests that wait here."""
        for request in list(requests):
            self._remove(request)

    def __bool__(self) -> bool:
        return bool(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Any]:
        return iter([self._requests[i.inference_id] for i in list(self._queue)])

    # -- what the controller calls ----------------------------------------------------

    def refresh(self, run_id: str) -> None:
        """The key of a run has changed."""
        self._queue.refresh(run_id)

    def reorder(self) -> None:
        """The order itself has changed.

        All that waits is sorted anew, by arrival in vLLM's own order.
        """
        waiting = sorted(self._requests.values(), key=self._arrival)
        self._queue = self._new_queue()
        self._front = self._back = 0
        for request in waiting:
            self._back += 1
            self._queue.add(self._describe(request, self._back))

    # -- inside ----------------------------------------------------

    def _arrival(self, request: Any) -> tuple[int, float]:
        try:
            return self._order.inference(request.request_id).sequence, 0.0
        except Exception:  # noqa: BLE001 - the books may be what is broken
            return 0, request.arrival_time

    def _describe(self, request: Any, position: int) -> Inference:
        if self._order.is_stock_order:
            return Inference(request.request_id, request.request_id, position)
        return self._order.inference(request.request_id)

    def _add(self, request: Any, position: int) -> None:
        if request.request_id in self._requests:
            return
        self._requests[request.request_id] = request
        try:
            self._queue.add(self._describe(request, position))
        except Exception as error:  # noqa: BLE001 - nothing of ours may end a step
            self._recover(error)

    def _remove(self, request: Any) -> bool:
        request_id = request.request_id
        if self._requests.get(request_id) is not request:
            return False
        del self._requests[request_id]
        if self._peeked is request:
            self._peeked = None
        try:
            self._queue.remove(request_id)
        except Exception as error:  # noqa: BLE001 - nothing of ours may end a step
            self._recover(error)
        return True

    def _rank(self, request: Any) -> None:
        """What is about to run gets the rank by which victims are chosen."""
        if self._order.is_stock_order:
            return
        try:
            request.priority = self._order.rank(self._order.inference(request.request_id))
        except Exception as error:  # noqa: BLE001 - nothing of ours may end a step
            self._recover(error)

    def _recover(self, error: Exception) -> Any:
        """Go on in arrival order; returns the head."""
        self._on_error(error)
        if not self._order.is_stock_order:
            return None
        self.reorder()
        head = self._queue.peek()
        return None if head is None else self._requests[head.inference_id]
