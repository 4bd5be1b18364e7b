"""The paper's figures and tables, each beside what comes out here."""

from typing import Final

from justitia.sim.reproduce.experiment import Experiment
from justitia.sim.reproduce.paper import (
    completion_times,
    cost_ablation,
    elephant_and_mice,
    fair_ratios,
    overhead,
    predictor_ablation,
    three_applications,
    two_mergers,
)

EXPERIMENTS: Final[tuple[Experiment, ...]] = (
    two_mergers.EXPERIMENT,
    three_applications.EXPERIMENT,
    completion_times.EXPERIMENT,
    fair_ratios.EXPERIMENT,
    elephant_and_mice.EXPERIMENT,
    cost_ablation.EXPERIMENT,
    predictor_ablation.EXPERIMENT,
    overhead.EXPERIMENT,
)
"""In the order of the paper."""
