"""Settings from flags and JUSTITIA_OPERATOR_* variables; read here and nowhere else."""

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from justitia.flags import (
    ProcessSettings,
    SettingsError,
    read_flags,
    require_pair,
    split_address,
)

__all__ = ["ENV_PREFIX", "Settings", "SettingsError", "read_settings"]

ENV_PREFIX: Final = "JUSTITIA_OPERATOR_"


def _default_image() -> str:
    try:
        return f"justitia/trainer:{version('justitia')}"
    except PackageNotFoundError:
        return "justitia/trainer:latest"


class Settings(ProcessSettings):
    """Justitia's operator: programs the scheduler service from LLMApplications, trains predictors.

    Every flag is also a variable: --scheduler-address is JUSTITIA_OPERATOR_SCHEDULER_ADDRESS.
    The API server is found as kubectl finds it: the pod's own account, else the kubeconfig.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, cli_prog_name="python -m justitia_operator"
    )

    scheduler_address: str = Field(
        "127.0.0.1:50051", description="host:port of the scheduler service's gRPC."
    )
    tls_ca: Path | None = Field(
        None, description="PEM file of the authority of the service's certificate; set: encryption."
    )
    tls_cert: Path | None = Field(
        None, description="PEM file of the operator's own certificate, for mTLS."
    )
    tls_key: Path | None = Field(None, description="PEM file of its private key.")
    watch_namespaces: str = Field(
        "",
        description="Namespaces that are served, separated by commas; empty: all of the cluster.",
    )
    owner: str = Field(
        "justitia-operator",
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]{0,61}[A-Za-z0-9])?$",
        description="Marks what this operator declares to the service. Operators of several"
        " clusters that share one service need different ones; another one makes an operator a"
        " stranger to what it declared before.",
    )
    http_address: str = Field(
        "127.0.0.1:9096",
        description="host:port of /healthz, /readyz and /metrics. Loopback, so that a first try"
        " opens nothing; a pod's probes need 0.0.0.0 or [::].",
    )
    resync_s: float = Field(
        30.0,
        ge=1,
        le=3600,
        description="Seconds between two comparisons with the API server and the service: how long"
        " a missed change stays unnoticed.",
    )
    figures_s: float = Field(
        60.0,
        ge=1,
        le=86400,
        description="Least time in seconds between two writes of a status in which only figures"
        " moved; conditions are written at once.",
    )
    training_image: str = Field(
        default_factory=_default_image, description="Image of training Jobs that name none."
    )
    training_scheduler_address: str | None = Field(
        None, description="The service's address as training Jobs reach it; none: the same."
    )
    training_client_secret: str = Field(
        "",
        description="Secret with tls.crt and tls.key in the applications' namespaces, for training"
        " Jobs where the service asks for client certificates.",
    )
    max_training_jobs: int = Field(
        4,
        ge=1,
        le=1000,
        description="Training Jobs at a time; more wait, so that many applications that come due"
        " together do not take the cluster.",
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="'console' for people, 'json' for log collectors."
    )

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        require_pair(self.tls_cert, self.tls_key)
        if self.tls_cert is not None and self.tls_ca is None:
            raise ValueError("tls_cert needs tls_ca")
        return self

    @field_validator("http_address")
    @classmethod
    def _check_address(cls, address: str) -> str:
        split_address("http_address", address)
        return address

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that are served; empty: all."""
        names = (name.strip() for name in self.watch_namespaces.split(","))
        return tuple(dict.fromkeys(name for name in names if name))


def read_settings(
    arguments: Sequence[str], environment: Mapping[str, str] = os.environ
) -> Settings:
    """Read flags and variables; flags win.

    Raises:
        SettingsError: an unknown variable, or a value that does not fit.
        SystemExit: --help, or an unknown flag (code 2).
    """
    return read_flags(Settings, arguments, environment)
