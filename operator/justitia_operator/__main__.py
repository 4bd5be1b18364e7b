"""``python -m justitia_operator``: run until a signal."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

import structlog

from justitia.logs import configure_logs
from justitia_operator.apply import ClusterError
from justitia_operator.pages import ListenError
from justitia_operator.process import Process
from justitia_operator.settings import Settings, SettingsError, read_settings

_CANNOT_START: Final = 2
_GAVE_UP: Final = 1

_log = structlog.get_logger()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator until SIGTERM or SIGINT; returns the exit code.

    What keeps it from starting is one sentence on stderr and code 2; what makes it give up is in
    the log, and code 1.
    """
    try:
        settings = read_settings(sys.argv[1:] if arguments is None else arguments)
        configure_logs(settings.log_format)
        asyncio.run(_run(settings))
    except (SettingsError, ListenError, ClusterError) as error:
        print(f"justitia-operator: {error}", file=sys.stderr)  # noqa: T201
        return _CANNOT_START
    except Exception:  # noqa: BLE001  whatever it is, the log has it and the pod starts again
        _log.exception("gave up")
        return _GAVE_UP
    return 0


async def _run(settings: Settings) -> None:
    await Process(settings).run()


if __name__ == "__main__":
    sys.exit(main())
