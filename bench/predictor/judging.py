"""Leave one shelf out: each fifth of the documents judges what was learnt from the other four."""

import time
from dataclasses import dataclass, field

import numpy as np

from justitia.predictor.metrics import rank_correlation
from justitia.predictor.recordings import NUM_SHELVES


@dataclass
class Judged:
    """Natural logarithms of predicted and true costs of one application, and times to train."""

    predicted: list[float] = field(default_factory=list)
    true: list[float] = field(default_factory=list)
    log_sigmas: list[float] = field(default_factory=list)
    ranks: list[float] = field(default_factory=list)
    train_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Errors:
    """Means over the applications; ``mean`` is the mean of |predicted - true| / true.

    ``pooled`` divides the sum of the errors by the sum of the true costs: large runs count more.
    ``within_80`` is the share of runs between the P10 and the P90 that were predicted for them.
    """

    mean: float
    median: float
    pooled: float
    log: float
    rank: float
    within_80: float | None
    below_90: float | None
    train_s: float
    by_application: dict[str, float]


def judge(groups, make, num_samples):
    """Judge a candidate at a size; None takes all samples of four shelves.

    ``groups``: (prompt, log cost, shelf) by application. A shelf's training samples are drawn with
    the shelf's number as the seed, so that all candidates see the same.
    """
    return {name: _judge_application(rows, make, num_samples) for name, rows in groups.items()}


def _judge_application(rows, make, num_samples):
    judged = Judged()
    for shelf in range(NUM_SHELVES):
        known = [row for row in rows if row[2] != shelf]
        tests = [row for row in rows if row[2] == shelf]
        order = np.random.default_rng(shelf).permutation(len(known))[:num_samples]
        prompts = [known[index][0] for index in order]
        log_costs = np.array([known[index][1] for index in order])
        candidate = make()
        started_s = time.perf_counter()
        candidate.fit(prompts, log_costs)
        judged.train_s.append(time.perf_counter() - started_s)
        predicted = [float(x) for x in candidate.predict([row[0] for row in tests])]
        true = [row[1] for row in tests]
        judged.predicted += predicted
        judged.true += true
        judged.ranks.append(rank_correlation(np.array(predicted), np.array(true)) or 0.0)
        model = getattr(candidate, "model", None)
        if model is not None and model.left_out_log_sigma is not None:
            judged.log_sigmas += [model.log_sigma] * len(tests)
    return judged


def errors_of(judged_by_application):
    rows = {name: _errors(judged) for name, judged in judged_by_application.items()}
    means = {
        key: float(np.mean([row[key] for row in rows.values()]))
        for key in ("mean", "median", "pooled", "log", "rank")
    }
    has_sigma = all(judged.log_sigmas for judged in judged_by_application.values())
    calibration = {
        key: float(np.mean([row[key] for row in rows.values()])) if has_sigma else None
        for key in ("within_80", "below_90")
    }
    slowest_s = max(max(judged.train_s) for judged in judged_by_application.values())
    by_application = {name: row["mean"] for name, row in rows.items()}
    return Errors(**means, **calibration, train_s=slowest_s, by_application=by_application)


def _errors(judged):
    predicted, true = np.array(judged.predicted), np.array(judged.true)
    relative = np.abs(np.expm1(predicted - true))
    costs = np.exp(true)
    row = {
        "mean": relative.mean(),
        "median": np.median(relative),
        "pooled": (relative * costs).sum() / costs.sum(),
        "log": np.abs(predicted - true).mean(),
        "rank": np.mean(judged.ranks),
    }
    if judged.log_sigmas:
        above = (true - predicted) / np.maximum(judged.log_sigmas, 1e-9)  # in standard deviations
        row["within_80"] = (np.abs(above) <= 1.2816).mean()
        row["below_90"] = (above <= 1.2816).mean()
    return row
