"""The API server's audit log: what the operator's account asked for."""

import json
import shutil
from typing import NamedTuple

_WRITES = ("create", "update", "patch", "delete", "deletecollection")


class Request(NamedTuple):
    verb: str
    resource: str
    code: int

    @property
    def is_write(self):
        return self.verb in _WRITES


class Audit:
    """Reads the log from a place on; the server writes each line before it answers."""

    def __init__(self, path):
        self.path = path

    def here(self):
        """The place that is the end now."""
        return self.path.stat().st_size if self.path.exists() else 0

    def since(self, place):
        """The requests that were answered after a place; watches that end are among them."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as log:
            log.seek(place)
            lines = log.read().splitlines(keepends=True)
        entries = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [_read(entry) for entry in entries if entry["stage"] == "ResponseComplete"]

    def writes_since(self, place):
        return [request for request in self.since(place) if request.is_write]

    def copy_to(self, path):
        if self.path.exists():
            shutil.copy(self.path, path)


def _read(entry):
    about = entry.get("objectRef", {})
    parts = (about.get("resource", ""), about.get("subresource", ""))
    code = entry.get("responseStatus", {}).get("code", 0)
    return Request(entry["verb"], "/".join(part for part in parts if part), code)
