"""Settings of the plugin, from environment variables alone: vLLM hands its plugins nothing else."""

import math
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from justitia.core.errors import InvalidValueError
from justitia.core.limits import MAX_ID_CHARS, is_usable_id
from justitia.core.policies import make_policy

_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})")
_MODES: Final = ("enforce", "shadow")


class SettingsError(ValueError):
    """A setting or a combination of flags is refused.

    The message is one sentence for the operator.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator of an engine can choose."""

    #: Order of service, one of ``justitia.core.policies.POLICIES``. JUSTITIA_POLICY
    policy: str = "justitia"
    #: host:port of the scheduler service; empty: the engine is on its own.
    #: JUSTITIA_SCHEDULER_ADDRESS
    scheduler_address: str = ""
    #: Pool that this engine belongs to. JUSTITIA_POOL
    pool: str = "default"
    #: Stable over restarts and unique in the pool; the data-parallel index is appended.
    #: JUSTITIA_ENGINE_ID
    engine_id: str = ""
    #: PEM files; the certificate and its key only where the service asks for one.
    #: JUSTITIA_TLS_CA, JUSTITIA_TLS_CERT, JUSTITIA_TLS_KEY
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    #: Least time between two reports, seconds; 20 a second keep the engine's own thread free.
    #: JUSTITIA_REPORT_PERIOD_S
    report_period_s: float = 0.05
    #: ``shadow``: measure and report, serve in stock order, whatever the pool's mode is; an engine
    #: with ``enforce`` follows the pool. JUSTITIA_MODE
    mode: str = "enforce"
    #: A run with nothing in flight for this long is over here; if it comes back it is a new one.
    #: Longer than the service's own timeouts (60 s unless an application sets another), since the
    #: service decides and tells the engine; this one is for runs that it cannot tell of.
    #: JUSTITIA_RUN_IDLE_TIMEOUT_S
    run_idle_timeout_s: float = 300.0
    #: Cost of a run that nobody has estimated, kvtt, until the service says another.
    #: JUSTITIA_DEFAULT_COST_KVTT
    default_cost_kvtt: int = 1_000_000
    #: Weights of applications until the service says others: "name=2,other=0.5". JUSTITIA_WEIGHTS
    weights: str = ""
    #: Start on a vLLM outside the tested window. JUSTITIA_ALLOW_UNTESTED_VLLM=1
    allow_untested_vllm: bool = False

    def __post_init__(self) -> None:
        _check_policy(self.policy)
        _check_address(self.scheduler_address)
        _check_name("JUSTITIA_POOL", self.pool)
        _check_name("JUSTITIA_ENGINE_ID", self.engine_id or "default")
        if self.mode not in _MODES:
            raise SettingsError(f"JUSTITIA_MODE must be enforce or shadow, got {self.mode!r}")
        _check_range("JUSTITIA_REPORT_PERIOD_S", self.report_period_s, 0.05, 60.0)
        _check_range("JUSTITIA_RUN_IDLE_TIMEOUT_S", self.run_idle_timeout_s, 1.0, 86_400.0)
        _check_range("JUSTITIA_DEFAULT_COST_KVTT", self.default_cost_kvtt, 1, 10**18)
        _check_tls(self.tls_ca, self.tls_cert, self.tls_key)
        self.weight_by_application()

    def weight_by_application(self) -> dict[str, float]:
        """Parse ``weights``."""
        weights: dict[str, float] = {}
        for part in filter(None, (p.strip() for p in self.weights.split(","))):
            name, _, value = part.rpartition("=")
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if not name.strip() or not 1e-9 <= number <= 1e9:  # noqa: PLR2004 - the core's range
                raise SettingsError(
                    f"JUSTITIA_WEIGHTS must list name=weight, weights 1e-9 to 1e9, got {part!r}"
                )
            weights[name.strip()] = number
        return weights

    def named_for(self, data_parallel_index: int) -> str:
        """Engine id of one data-parallel rank: each has a queue and a KV cache of its own."""
        return f"{self.engine_id or socket.gethostname()}-{data_parallel_index}"


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings.

    Raises:
        SettingsError: a value is refused.
    """
    env = os.environ if environ is None else environ
    values: dict[str, Any] = {
        name: env[f"JUSTITIA_{variable}"].strip()
        for name, variable in _TEXTS.items()
        if env.get(f"JUSTITIA_{variable}", "").strip()
    }
    values |= {
        name: _number(f"JUSTITIA_{variable}", env[f"JUSTITIA_{variable}"].strip())
        for name, variable in _NUMBERS.items()
        if env.get(f"JUSTITIA_{variable}", "").strip()
    }
    if "default_cost_kvtt" in values:
        values["default_cost_kvtt"] = int(values["default_cost_kvtt"])
    allow = _flag(env, "JUSTITIA_ALLOW_UNTESTED_VLLM")
    return Settings(**values, allow_untested_vllm=allow)


_TEXTS: Final = {
    "policy": "POLICY",
    "scheduler_address": "SCHEDULER_ADDRESS",
    "pool": "POOL",
    "engine_id": "ENGINE_ID",
    "tls_ca": "TLS_CA",
    "tls_cert": "TLS_CERT",
    "tls_key": "TLS_KEY",
    "mode": "MODE",
    "weights": "WEIGHTS",
}


_NUMBERS: Final = {
    "report_period_s": "REPORT_PERIOD_S",
    "run_idle_timeout_s": "RUN_IDLE_TIMEOUT_S",
    "default_cost_kvtt": "DEFAULT_COST_KVTT",
}


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise SettingsError(f"{name} must be a number, got {text!r}") from None
    if not math.isfinite(number):
        raise SettingsError(f"{name} must be a finite number, got {text!r}")
    return number


def _flag(env: Mapping[str, str], name: str) -> bool:
    text = env.get(name, "").strip()
    if text not in {"", "0", "1"}:
        raise SettingsError(f"{name} must be 0 or 1, got {text!r}")
    return text == "1"


def _check_policy(name: str) -> None:
    try:
        make_policy(name)
    except InvalidValueError as error:
        raise SettingsError(f"JUSTITIA_POLICY {str(error).removeprefix('policy: ')}") from None


def _check_address(address: str) -> None:
    if not address:
        return
    match = _ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match["port"]) <= 65_535:  # noqa: PLR2004 - TCP
        raise SettingsError(f"JUSTITIA_SCHEDULER_ADDRESS must be host:port, got {address!r}")


def _check_name(name: str, value: str) -> None:
    if not is_usable_id(value):
        raise SettingsError(f"{name} must have 1 to {MAX_ID_CHARS} printable characters")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise SettingsError(f"{name} must be from {low:g} to {high:g}, got {value!r}")


def _check_tls(ca: str, cert: str, key: str) -> None:
    if bool(cert) != bool(key):
        raise SettingsError("JUSTITIA_TLS_CERT and JUSTITIA_TLS_KEY must be set together")
    if cert and not ca:
        raise SettingsError("JUSTITIA_TLS_CERT needs JUSTITIA_TLS_CA, which turns TLS on")
    for name, path in (("CA", ca), ("CERT", cert), ("KEY", key)):
        if path and not os.access(Path(path), os.R_OK):
            raise SettingsError(f"JUSTITIA_TLS_{name} must be a readable file, got {path!r}")
