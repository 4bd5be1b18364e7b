"""What the product's defaults were chosen from."""

from justitia.sim.reproduce.decisions import clock, cost_unit, learning, prefix_cost
from justitia.sim.reproduce.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    clock.EXPERIMENT,
    cost_unit.EXPERIMENT,
    prefix_cost.EXPERIMENT,
    learning.EXPERIMENT,
)
