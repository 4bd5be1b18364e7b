"""Settings from flags and JUSTITIA_SCHEDULER_* variables; read here and nowhere else."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from justitia.core.pool import Clock
from justitia.core.units import MAX_COST_KVTT
from justitia.flags import ProcessSettings, SettingsError, read_flags, require_pair
from justitia_scheduler.pools import PoolOptions
from justitia_scheduler.service import ServiceOptions

__all__ = ["ENV_PREFIX", "Settings", "SettingsError", "read_settings"]

ENV_PREFIX: Final = "JUSTITIA_SCHEDULER_"

#: Tells clients and engines where this service is; the same environment may hold both.
_CLIENTS_VARIABLES: Final = frozenset({f"{ENV_PREFIX}ADDRESS"})


class Settings(ProcessSettings):
    """Justitia's scheduler service: virtual time and tags for pools of vLLM engines.

    Every flag is also a variable: --journal-path is JUSTITIA_SCHEDULER_JOURNAL_PATH.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, cli_prog_name="justitia-scheduler")

    listen_address: str = Field(
        "127.0.0.1:50051",
        description="host:port of gRPC; port 0 picks a free one. Loopback, since without TLS files"
        " anyone who reaches it may order runs.",
    )
    metrics_address: str = Field(
        "127.0.0.1:9095",
        description="host:port of the Prometheus page, or 'off'. Loopback, as above.",
    )
    health_address: str = Field(
        "off",
        description="host:port of grpc.health.v1 alone and without TLS, or 'off'. For probes that"
        " know no TLS, such as kubelet's; gRPC's own port answers them too.",
    )
    journal_path: Path | None = Field(
        None,
        description="SQLite file that open runs, virtual time, samples and models survive in; none:"
        " memory only, so that a first try leaves nothing behind.",
    )
    pools: str = Field(
        "default",
        description="Names of the pools that exist from the start, separated by commas; others come"
        " with their first application or engine.",
    )
    default_pool: str = Field("default", description="Pool of calls that name none.")
    default_application: str = Field(
        "default", description="Application of runs that name none; weight 1 unless it is declared."
    )
    clock: Literal["delivered", "capacity"] = Field(
        "delivered",
        description="What makes virtual time grow: 'delivered' useful service, true whatever an"
        " engine is bound by, or KV 'capacity' x steps, the paper's.",
    )
    learning: Literal["on", "off"] = Field(
        "on",
        description="Whether what a run's own finished inferences show moves its place in the order"
        " (rule K2), and so does what ended ones of its application have cost (rule E2); 'off':"
        " the estimate that it began with holds to its end, as in the paper.",
    )
    default_cost_kvtt: int = Field(
        1_000_000,
        ge=1,
        le=MAX_COST_KVTT,
        description="Cost of a run that nothing is known of, in KV token-steps: about three"
        " inferences of 1000 prompt and 250 output tokens.",
    )
    max_open_runs: int = Field(
        100_000,
        ge=1,
        le=10_000_000,
        description="Open runs of a pool; more are refused. What the service is tested with.",
    )
    prediction_deadline_s: float = Field(
        0.005,
        ge=0,
        le=10,
        description="Seconds that StartRun waits for a prediction; more than a few milliseconds"
        " would delay the run that it is for.",
    )
    sample_retention_s: float = Field(
        90 * 86400.0,
        ge=0,
        le=100 * 366 * 86400.0,
        description="Seconds that a finished run is kept as a sample, with what its application's"
        " privacy allows of its prompt; 0: until newer ones take its place.",
    )
    tls_cert: Path | None = Field(None, description="PEM file of the server's certificate chain.")
    tls_key: Path | None = Field(None, description="PEM file of its private key.")
    tls_client_ca: Path | None = Field(
        None, description="PEM file of the authority of client certificates; set: mTLS."
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="'console' for people, 'json' for log collectors."
    )
    drain_s: float = Field(
        5.0,
        ge=0,
        le=600,
        description="Seconds that open calls get at the end; Kubernetes grants 30 in all.",
    )

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        require_pair(self.tls_cert, self.tls_key)
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls_client_ca needs tls_cert and tls_key")
        return self

    @property
    def has_metrics_page(self) -> bool:
        """Whether metrics are served."""
        return self.metrics_address != "off"

    @property
    def has_health_port(self) -> bool:
        """Whether health has a port of its own."""
        return self.health_address != "off"

    def pool_options(self) -> PoolOptions:
        """What every pool shares."""
        return PoolOptions(
            default_application=self.default_application,
            default_cost_kvtt=self.default_cost_kvtt,
            max_open_runs=self.max_open_runs,
            clock=Clock(self.clock),
            is_learning=self.learning == "on",
        )

    def service_options(self) -> ServiceOptions:
        """What the service as a whole needs."""
        named = [name.strip() for name in self.pools.split(",")]
        names = dict.fromkeys([*(name for name in named if name), self.default_pool])
        return ServiceOptions(
            pools=tuple(names),
            default_pool=self.default_pool,
            prediction_deadline_s=self.prediction_deadline_s,
            sample_retention_s=self.sample_retention_s,
        )


def read_settings(
    arguments: Sequence[str], environment: Mapping[str, str] = os.environ
) -> Settings:
    """Read flags and variables; flags win.

    Raises:
        SettingsError: an unknown variable, or a value that does not fit.
        SystemExit: --help, or an unknown flag (code 2).
    """
    return read_flags(Settings, arguments, environment, others=_CLIENTS_VARIABLES)
