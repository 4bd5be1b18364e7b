"""Logs of our processes: structured key-values on stderr, for people or for log collectors.

Records of libraries, which use the standard library's logging, come out in the same form. Needs
structlog, which the extras ``service`` and ``operator`` bring.
"""

import logging
import sys
from typing import Literal

import structlog

LogFormat = Literal["console", "json"]


def configure_logs(log_format: LogFormat) -> None:
    """Send everything to stderr in one format; called once, at the start of a process."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, renderer],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
