"""The one error of refused resources, and its one sentence."""

from typing import Final, Self

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from justitia.core.errors import shown

#: What pydantic says in Python's words, in the API server's words.
_PROBLEMS: Final = {
    "extra_forbidden": "is not a known field",
    "missing": "is required",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "string_type": "must be a string",
    "float_type": "must be a number",
    "string_pattern_mismatch": "should match '{pattern}'",
    "too_long": "must have at most {max_length} items",
    "too_short": "should have at least {min_length} items",
}
#: Their input is the whole object around the field, or nothing at all.
_WITHOUT_VALUE: Final = frozenset({"extra_forbidden", "missing"})


class ResourceError(ValueError):
    """A resource is refused. ``field`` is its path (``spec.weight``), the message holds the value.

    The path is empty where the object as a whole is refused.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem

    @classmethod
    def from_validation(cls, error: ValidationError) -> Self:
        """Keep the first of the problems that pydantic found: one sentence can be acted on."""
        first = error.errors(include_url=False)[0]
        return cls(_path(first["loc"]), _problem(first))


def _path(loc: tuple[int | str, ...]) -> str:
    """Write a location as the API server does: ``spec.job.tolerations[0].key``."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":
            path += f".{part}" if path else part
    return path


def _problem(details: ErrorDetails) -> str:
    kind = details["type"]
    if kind == "value_error":  # our own sentences name the value themselves
        return details["msg"].removeprefix("Value error, ")
    problem = _PROBLEMS.get(kind, details["msg"].removeprefix("Input ").removeprefix("String "))
    problem = problem.format(**details.get("ctx", {}))
    return problem if kind in _WITHOUT_VALUE else f"{problem}, got {shown(details['input'])}"
