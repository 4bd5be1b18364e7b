"""Shapes of the test cases in ``bad_manifests``: what is refused, and what is said about it."""

from dataclasses import dataclass, field
from typing import Any, Final

from justitia.resources.application import API_VERSION

APPLICATION: Final = "LLMApplication"
PROFILE: Final = "PredictorProfile"


@dataclass(frozen=True, kw_only=True)
class BadManifest:
    """A manifest and what is said about it.

    ``message`` is part of what both say; where the API server has words of its own, ``server``
    holds them. ``path`` is the field that both name.
    """

    kind: str
    path: str
    message: str
    spec: dict[str, Any] = field(default_factory=dict)
    server: str = ""
    name: str = "refused"

    @property
    def document(self) -> dict[str, Any]:
        """The manifest, parsed."""
        return {
            "apiVersion": API_VERSION,
            "kind": self.kind,
            "metadata": {"name": self.name},
            "spec": self.spec,
        }

    @property
    def server_message(self) -> str:
        """What the API server says."""
        return self.server or self.message

    @property
    def title(self) -> str:
        """Name it in a test's report."""
        return f"{self.kind} {self.path} {self.message[:40]}"


@dataclass(frozen=True, kw_only=True)
class BadChange:
    """A change of a stored resource that only the API server can refuse."""

    kind: str
    before: dict[str, Any]
    after: dict[str, Any]
    path: str
    message: str
