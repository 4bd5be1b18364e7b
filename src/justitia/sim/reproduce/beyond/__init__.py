"""What the paper did not measure."""

from typing import Final

from justitia.sim.reproduce.beyond import (
    preemption,
    rivals,
    scale,
    skewed_ingress,
    srpt_limit,
    steady_load,
    weights,
    workloads,
)
from justitia.sim.reproduce.experiment import Experiment

EXPERIMENTS: Final[tuple[Experiment, ...]] = (
    rivals.EXPERIMENT,
    srpt_limit.EXPERIMENT,
    workloads.EXPERIMENT,
    steady_load.EXPERIMENT,
    weights.EXPERIMENT,
    skewed_ingress.EXPERIMENT,
    preemption.EXPERIMENT,
    scale.EXPERIMENT,
)
