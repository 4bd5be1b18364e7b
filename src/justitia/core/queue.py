"""The waiting queue: one structure for every policy (rules O1 and O2).

Inferences that share a key (those of a run, or of what the policy calls a flow) stand in one
bucket, in order of arrival; a heap orders the buckets. A change of key moves the bucket, not its
inferences: O(log n) whatever the number that wait. Deletions are lazy in both levels.
"""

import heapq
from collections.abc import Iterator

from justitia.core.errors import InvariantError
from justitia.core.policies.base import Inference, Key, Policy


class _Bucket:
    __slots__ = ("heap", "name", "num_live", "stamp")

    def __init__(self, name: str) -> None:
        self.name = name
        # Place by the policy, arrival, serial number of the entry.
        self.heap: list[tuple[int, int, int, Inference]] = []
        self.num_live = 0
        self.stamp = 0  # entries of the outer heap with another stamp are void


class InferenceQueue:
    """Waiting inferences of one engine in the order of a policy.

    The owner calls ``refresh`` after each policy hook that says a key has changed, and never
    between the ``peek`` of an inference and its ``pop``.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._buckets: dict[str, _Bucket] = {}
        self._order: list[tuple[Key, int, int, _Bucket]] = []
        # By id: the serial number of its entry, and where that stands.
        self._live: dict[str, tuple[int, _Bucket, Inference]] = {}
        self._num_by_run: dict[str, int] = {}
        self._num_pushed = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, inference_id: str) -> bool:
        return inference_id in self._live

    def __iter__(self) -> Iterator[Inference]:
        """Iterate in the order of service; O(n log n)."""
        waiting = [inference for _, _, inference in self._live.values()]
        return iter(sorted(waiting, key=lambda i: (self._policy.key(i), i.sequence)))

    def num_waiting(self, run_id: str) -> int:
        """How many inferences of a run wait here."""
        return self._num_by_run.get(run_id, 0)

    def add(self, inference: Inference) -> None:
        """Queue an inference. A run that the policy does not know is served at once.

        Raises:
            InvariantError: its id waits already.
        """
        if inference.inference_id in self._live:
            raise InvariantError(f"inference {inference.inference_id!r} waits already")
        if self.num_waiting(inference.run_id) == 0:
            self._activate(inference.run_id)
        bucket = self._bucket_for(inference)
        self._num_by_run[inference.run_id] = self.num_waiting(inference.run_id) + 1
        self._num_pushed += 1
        self._live[inference.inference_id] = (self._num_pushed, bucket, inference)
        place = self._policy.place(inference)
        heapq.heappush(bucket.heap, (place, inference.sequence, self._num_pushed, inference))
        bucket.num_live += 1
        if bucket.heap[0][2] == self._num_pushed:
            self._publish(bucket)
        elif len(bucket.heap) > 2 * bucket.num_live + 64:
            bucket.heap = [entry for entry in bucket.heap if self._is_live(entry)]
            heapq.heapify(bucket.heap)

    def peek(self) -> Inference | None:
        """Look at the inference that is to be served next."""
        bucket = self._first()
        return None if bucket is None else self._head(bucket)

    def pop(self) -> Inference:
        """Take the inference that ``peek`` shows.

        Raises:
            IndexError: nothing waits.
        """
        inference = self.peek()
        if inference is None:
            raise IndexError("pop from an empty queue")
        self._policy.take(inference)
        self.remove(inference.inference_id)
        self._refresh_moved()
        return inference

    def remove(self, inference_id: str) -> bool:
        """Take out an inference wherever it stands; False if it does not wait here."""
        live = self._live.pop(inference_id, None)
        if live is None:
            return False
        serial, bucket, inference = live
        run_id = inference.run_id
        left = self._num_by_run.pop(run_id) - 1
        if left:
            self._num_by_run[run_id] = left
        bucket.num_live -= 1
        if bucket.num_live == 0:
            bucket.stamp = -1
            del self._buckets[bucket.name]
        elif bucket.heap[0][2] == serial:
            self._publish(bucket)
        if not left:
            self._policy.deactivate(run_id)
        return True

    def refresh(self, run_id: str) -> None:
        """The key of a run has changed; per-inference keys never do."""
        if self._policy.is_per_inference:
            return
        bucket = self._buckets.get(self._policy.flow(run_id))
        if bucket is not None:
            self._publish(bucket)
        self._refresh_moved()

    def _refresh_moved(self) -> None:
        for flow in self._policy.take_moved():
            bucket = self._buckets.get(flow)
            if bucket is not None:
                self._publish(bucket)

    def _activate(self, run_id: str) -> None:
        head = self.peek()
        self._policy.activate(run_id, None if head is None else self._policy.key(head))

    def _bucket_for(self, inference: Inference) -> _Bucket:
        policy = self._policy
        is_alone = policy.is_per_inference
        name = inference.inference_id if is_alone else policy.flow(inference.run_id)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(name)
        return bucket

    def _head(self, bucket: _Bucket) -> Inference:
        while not self._is_live(bucket.heap[0]):
            heapq.heappop(bucket.heap)
        return bucket.heap[0][3]

    def _is_live(self, entry: tuple[int, int, int, Inference]) -> bool:
        _, _, serial, inference = entry
        live = self._live.get(inference.inference_id)
        return live is not None and live[0] == serial

    def _publish(self, bucket: _Bucket) -> None:
        """Enter a bucket into the order with its present key."""
        head = self._head(bucket)
        self._num_pushed += 1
        bucket.stamp = self._num_pushed
        heapq.heappush(self._order, (self._policy.key(head), head.sequence, bucket.stamp, bucket))
        if len(self._order) > 4 * len(self._buckets) + 64:
            self._order = [entry for entry in self._order if entry[2] == entry[3].stamp]
            heapq.heapify(self._order)

    def _first(self) -> _Bucket | None:
        while self._order:
            _, _, stamp, bucket = self._order[0]
            if stamp == bucket.stamp:
                return bucket
            heapq.heappop(self._order)
        return None
