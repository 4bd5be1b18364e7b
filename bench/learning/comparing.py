"""What plays come to: against exact costs, against ideal fair sharing, and as simulated."""

import statistics
from dataclasses import dataclass

from workload import BEFORE_PLAY

from justitia.core.learning import Learner, LearningRules
from justitia.core.quantiles import quantile
from justitia.sim.estimators import HISTORY as MEANS
from justitia.sim.estimators import make_estimator
from justitia.sim.loop import PlaySettings, play

EXACT, AGAIN, FIXED, OURS = "exact", "again", "fixed", "learning"
HISTORY_FIXED, HISTORY = "history_fixed", "history"
#: A run counts as harmed above this rho_ps, as in ``bench/predictor_regret``,
HARMED = 1.3
#: and as later where its JCT is so many times that with exact costs.
LATER = 1.1
#: Measures that are shown of the simulator's plays too.
SIMULATED = ("mean_jct_over_exact", "worst_rho_ps")
#: Figures that are added up over the seeds.
COUNTS = ("failed_runs", "unsettled_runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """What is played on one service and engine: by name, the estimator that clients declare.

    None: they declare nothing. `BEFORE_PLAY` is a play of other runs.
    """

    is_learning: bool
    plays: dict[str, str | None]


def plans_of(error, *, has_history):
    """The stacks of one seed.

    Exact costs come first: where runs cost less than declared, V is still behind when they have
    ended, and what is played next is measured against that. Means know no run that is judged.
    """
    wrong = f"error:{error:g}"
    plans = [
        StackPlan(is_learning=False, plays={EXACT: EXACT, AGAIN: EXACT, FIXED: wrong}),
        StackPlan(is_learning=True, plays={BEFORE_PLAY: wrong, OURS: wrong}),
    ]
    if has_history:
        plans += [
            StackPlan(is_learning=False, plays={BEFORE_PLAY: None, HISTORY_FIXED: None}),
            StackPlan(is_learning=True, plays={BEFORE_PLAY: None, HISTORY: None}),
        ]
    return plans


@dataclass(frozen=True, slots=True)
class Times:
    """JCTs of a play's runs by their place, and those under ideal fair sharing where known."""

    jct_s: dict[int, float]
    reference_jct_s: dict[int, float]

    @classmethod
    def of(cls, played):
        """Of a real play: rule R1's reference is JCT by rho."""
        known = played.rho.keys() & played.jct_s.keys()
        return cls(played.jct_s, {n: played.jct_s[n] / played.rho[n] for n in known})

    @classmethod
    def of_simulated(cls, played):
        return cls(
            {number: run.jct_s for number, run in enumerate(played.runs)},
            {number: run.reference_jct_s for number, run in enumerate(played.runs)},
        )

    @property
    def mean_jct_s(self):
        return statistics.fmean(self.jct_s.values())


def measures(times, exact):
    """A play against that of the same runs with exact costs, whose references count (rho_ps)."""
    both = sorted(times.jct_s.keys() & exact.jct_s.keys())
    over_exact = [times.jct_s[n] / exact.jct_s[n] for n in both]
    rho_ps = [times.jct_s[n] / exact.reference_jct_s[n] for n in both if n in exact.reference_jct_s]
    return {
        "mean_jct_over_exact": statistics.fmean(times.jct_s[n] for n in both)
        / statistics.fmean(exact.jct_s[n] for n in both),
        "worst_rho_ps": max(rho_ps),
        "p90_rho_ps": quantile(rho_ps, 0.9),
        "share_harmed": statistics.fmean(ratio > HARMED for ratio in rho_ps),
        "share_later": statistics.fmean(quotient > LATER for quotient in over_exact),
    }


def simulated(plans, scenarios):
    """The simulator's plays of what the plans hold, but of those that only teach; by name."""
    plays = {}
    for plan in plans:
        learner = Learner(LearningRules()) if plan.is_learning else None
        means = make_estimator(MEANS, scenarios.judged)
        for name, estimator in plan.plays.items():
            plays[name] = play(
                scenarios.of(name),
                "justitia",
                PlaySettings(estimator=estimator or MEANS),
                learner=learner,
                estimator=means if estimator is None else None,
            )
    plays.pop(BEFORE_PLAY, None)
    return plays


def figures_of_seed(plays, by_simulator):
    """All figures of one seed; ours have no suffix."""
    exact, exact_simulated = Times.of(plays[EXACT]), Times.of_simulated(by_simulator[EXACT])
    figures = {}
    others = [name for name in by_simulator if name not in (EXACT, OURS)]
    for name in (OURS, *others):
        suffix = "" if name == OURS else f"_{name}"
        row = measures(Times.of(plays[name]), exact)
        figures |= {f"{what}{suffix}": value for what, value in row.items()}
        if name == AGAIN:
            continue
        row = measures(Times.of_simulated(by_simulator[name]), exact_simulated)
        figures |= {f"{what}{suffix}_simulated": row[what] for what in SIMULATED}
        figures[f"moves{suffix}"] = plays[name].moves
        figures[f"seen_error{suffix}"] = seen_error(plays[name])
    played = plays[EXACT]
    return figures | {
        "seen_error_exact": seen_error(played),
        "worst_rho_exact": max(played.rho.values()),
        "mean_jct_s_exact": exact.mean_jct_s,
        "mean_jct_s_exact_simulated": exact_simulated.mean_jct_s,
        **lateness(plays, by_simulator),
        "failed_runs": sum(len(each.errors) for each in plays.values()),
        "unsettled_runs": len(played.jct_s) - len(exact.reference_jct_s),
    }


def lateness(plays, by_simulator):
    """How much longer plays took than where nothing but the emulated GPU takes time."""
    pairs = [(plays[name], by_simulator[name]) for name in by_simulator]
    return {
        "step_over_simulated": max(real.step_s / simulated_step_s(sim) for real, sim in pairs),
        "time_over_simulated": max(real.duration_s / sim.duration_s for real, sim in pairs),
        "latest_arrival_ms": 1e3 * max(each.late_s for each in plays.values()),
    }


def seen_error(played):
    """Mean relative error of the service's last estimates against what runs took."""
    return statistics.fmean(
        abs(played.believed_kvtt[number] / true_kvtt - 1)
        for number, true_kvtt in played.true_kvtt.items()
    )


def simulated_step_s(played):
    """Time of a simulated play by the number of its steps."""
    return played.duration_s / sum(engine.steps for engine in played.engines)


def figures_of(by_seed):
    """Medians over the seeds; ``*_by_seed`` of ours; what failed is added up."""
    figures = {}
    for name in by_seed[0]:
        values = [figures_of_one[name] for figures_of_one in by_seed]
        figures[name] = sum(values) if name in COUNTS else round(statistics.median(values), 4)
    for name in _of_interest(by_seed[0]):
        figures[f"{name}_by_seed"] = [round(figures_of_one[name], 4) for figures_of_one in by_seed]
    return figures


def _of_interest(figures):
    """Figures of ours, their counterparts where F stays, and what says how far to trust them."""
    ours = [name for name in figures if f"{name}_{FIXED}" in figures]
    trust = (f"mean_jct_over_exact_{AGAIN}", "latest_arrival_ms")
    fixed = [f"{name}_{FIXED}" for name in ours]
    return [*ours, *fixed, *(name for name in trust if name in figures)]
