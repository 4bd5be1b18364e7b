"""Least tokens in a sliding window, by application: kthena's fairness queue, the user being that.

kthena's window is minutes of the wall clock. A policy sees no clock, so the window here is a number
of weighted tokens (p + 2d) that the engine serves to all together: where it is always busy that is
a time, and where it idles nothing is forgotten. As in kthena the window moves in steps, here of a
64th, and users that have got the same are served in order of arrival. kthena takes a request's
priority when it is queued, and renews it now and then; here it is always that of the moment. Its
optional term for the number of requests, and its rate limits, are left out.
"""

from collections import deque
from typing import ClassVar, Final

from justitia.core.cost import vtc_cost_tokens
from justitia.core.policies.base import UNKNOWN_RUN_KEY, Inference, Key, Service
from justitia.core.policies.by_application import ByApplication

_WINDOW_TOKENS: Final = 1 << 20
_NUM_SLICES: Final = 64


class SlidingWindow(ByApplication):
    """Least weighted tokens within the last ``window_tokens`` first, then arrival."""

    name: ClassVar[str] = "sliding-window"
    counts_tokens: ClassVar[bool] = True

    def __init__(self, window_tokens: int = _WINDOW_TOKENS) -> None:
        super().__init__()
        self._slice_tokens = max(1, window_tokens // _NUM_SLICES)
        self._served_tokens = 0
        # Number of a slice of all that was served, and who got it, oldest first.
        self._slices: deque[tuple[int, dict[str, int]]] = deque()
        self._tokens: dict[str, int] = {}
        self._moved: dict[str, None] = {}

    def charge(self, run_id: str, service: Service) -> bool:
        """Enter it into the newest slice; what has left the window counts no longer."""
        application = self.application_of(run_id)
        tokens = vtc_cost_tokens(service.prompt_tokens, service.output_tokens)
        if application is None or tokens == 0:
            return False
        self._served_tokens += tokens
        number = self._served_tokens // self._slice_tokens
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append((number, {}))
        newest = self._slices[-1][1]
        newest[application] = newest.get(application, 0) + tokens
        self._tokens[application] = self._tokens.get(application, 0) + tokens
        self._forget(number - _NUM_SLICES)
        return True

    def _forget(self, last: int) -> None:
        """Take out slices up to a number."""
        while self._slices[0][0] <= last:
            for application, tokens in self._slices.popleft()[1].items():
                self._moved[self.flow_of(application)] = None
                self._tokens[application] -= tokens
                if not self._tokens[application]:
                    del self._tokens[application]

    def take_moved(self) -> tuple[str, ...]:
        """Those of which something has left the window."""
        moved = tuple(self._moved)
        self._moved.clear()
        return moved

    def key(self, inference: Inference) -> Key:
        """Tokens in the window."""
        application = self.application_of(inference.run_id)
        return UNKNOWN_RUN_KEY if application is None else (self._tokens.get(application, 0), 0)
