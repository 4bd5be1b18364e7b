"""Cron schedules: five fields in UTC, every number within its field's range."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, WithJsonSchema

from justitia.core.errors import shown

MAX_SCHEDULE_CHARS: Final = 128
_MONTHS: Final = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_FIELDS: Final = (
    "[0-5]?[0-9]",
    "[01]?[0-9]|2[0-3]",
    "0?[1-9]|[12][0-9]|3[01]",
    f"0?[1-9]|1[0-2]|{_MONTHS}",
    "[0-7]|SUN|MON|TUE|WED|THU|FRI|SAT",
)
SENTENCE: Final = (
    "must be a cron expression of five fields such as 0 3 * * 1 (minute, hour, day of month, "
    "month, day of week), or @hourly, @daily, @weekly, @monthly"
)


def _field(number: str) -> str:
    item = rf"([*]|({number})(-({number}))?)(/[1-9][0-9]?)?"
    return f"{item}(,{item})*"


SCHEDULE_PATTERN: Final = (
    "^(@(hourly|daily|weekly|monthly)|" + " ".join(_field(number) for number in _FIELDS) + ")$"
)
_SCHEDULE: Final = re.compile(SCHEDULE_PATTERN.removeprefix("^").removesuffix("$"))


def read_schedule(value: str) -> str:
    """Return a schedule as it was written.

    Raises:
        ValueError: not of five fields, or a number out of its range.
    """
    if len(value) > MAX_SCHEDULE_CHARS or not _SCHEDULE.fullmatch(value):
        raise ValueError(f"{SENTENCE}, got {shown(value)}")
    return value


Schedule = Annotated[
    str,
    AfterValidator(read_schedule),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": MAX_SCHEDULE_CHARS,
            "x-kubernetes-validations": [
                {
                    "rule": f"self.matches('{SCHEDULE_PATTERN}')",
                    "message": SENTENCE,
                    "messageExpression": f"'{SENTENCE}, got ' + self",
                }
            ],
        }
    ),
]
