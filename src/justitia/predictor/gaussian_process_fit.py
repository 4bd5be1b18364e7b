"""Learns a `GaussianProcess` with scipy: how much each part counts is found from the samples.

The covariance of two samples' standardised log costs is a constant, plus the amplitudes of three
parts times their kernels (see `gaussian_process`), plus noise on the diagonal. Noise, amplitudes
and the bells' width maximise the marginal likelihood under a log-normal prior each, which keeps
them sensible for a handful of samples. Nothing is drawn at random, and BLAS keeps to one thread:
equal samples give equal models.

Terms come second: a process without them is learnt first, and of the terms only those join whose
presence goes with its errors more than the best of as many meaningless terms would by chance.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from justitia.predictor.features import FloatArray
from justitia.predictor.gaussian_process import GaussianProcess

_Floats = NDArray[np.float64]
_Flags = NDArray[np.bool_]

# Of the logarithms of: noise, amplitudes (terms, lengths, bells), width of a bell.
_PRIOR_MEAN = np.log([0.1, 0.1, 0.5, 0.5, 1.0])
_PRIOR_STD = np.array([1.0, 1.5, 1.0, 1.0, 0.7])
_RANGE = np.log([[2e-3, 4.0], [1e-3, 16.0], [1e-3, 16.0], [1e-3, 16.0], [0.1, 10.0]])
_WIDTH = 4
_CONSTANT = 1.0
"""Variance of what all samples have in common. Costs are standardised, so it is small beside 1 for
any number of samples; it keeps the mean from being taken for certain."""

_MIN_TEXTS = 5
"""Texts that must have a term, and that must lack it, before it can tell anything."""

_MAX_DEVIATION = 3.0
"""Errors count as at most so many times their median."""

_MAX_ITERATIONS = 60
_IS_CONSTANT = 1e-6

# The number of BLAS threads belongs to the process: two trainings must not restore each other's.
_one_thread_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class ProcessFit:
    """A process, and how far off it is on each sample when learnt from all the others.

    Errors are in standard deviations of the log costs.
    """

    process: GaussianProcess
    left_out_errors: _Floats

    @property
    def left_out_sigma(self) -> float:
        """Root mean square of the errors."""
        return float(np.sqrt(np.mean(self.left_out_errors**2)))


def fit_process(
    terms: FloatArray,
    lengths: FloatArray,
    targets: FloatArray,
    *,
    max_terms: int,
    on_step: Callable[[int], None],
) -> ProcessFit:
    """Learn from rows of terms' weights, standardised lengths and standardised log costs.

    Of the terms at most ``max_terms`` are read. ``on_step`` hears the number of iterations; what it
    raises ends the training.
    """
    is_present = terms > 0
    with _one_thread_lock, threadpool_limits(limits=1):
        nothing = np.zeros(terms.shape[1], dtype=np.bool_)
        without = _Fitter(is_present, nothing, lengths, targets).fit(on_step)
        is_read = _telling_terms(is_present, without.left_out_errors, max_terms)
        if not is_read.any():
            return without
        return _Fitter(is_present, is_read, lengths, targets).fit(on_step)


def _telling_terms(is_present: _Flags, errors: _Floats, max_terms: int) -> _Flags:
    """Return which terms go with the errors beyond chance, the clearest ones if they are many."""
    num_texts = len(errors)
    limit = _MAX_DEVIATION * max(float(np.median(np.abs(errors))), _IS_CONSTANT)
    errors = errors.clip(-limit, limit)  # a single odd run must not choose the terms
    shares = is_present.mean(axis=0)
    is_candidate = (shares * num_texts >= _MIN_TEXTS) & ((1 - shares) * num_texts >= _MIN_TEXTS)
    spreads = np.sqrt(shares * (1 - shares)) * max(float(errors.std()), _IS_CONSTANT)
    covariances = np.einsum("ij,i->j", is_present - shares, errors) / num_texts
    clarity = np.abs(covariances) / np.where(is_candidate, spreads, 1.0) * np.sqrt(num_texts)
    clarity[~is_candidate] = 0.0
    # The largest of m numbers that are normal by chance seldom exceeds this.
    by_chance = np.sqrt(2 * np.log(max(2, int(is_candidate.sum()))))
    clearest = np.argsort(-clarity, kind="stable")[:max_terms]
    is_telling = np.zeros(len(clarity), dtype=np.bool_)
    is_telling[clearest] = clarity[clearest] > by_chance
    return is_telling


class _Fitter:
    """Learns one process, which reads the terms of ``is_read``."""

    def __init__(
        self, is_present: _Flags, is_read: _Flags, lengths: FloatArray, targets: FloatArray
    ) -> None:
        self._lengths = lengths.astype(np.float64)
        self._targets = targets.astype(np.float64)
        self._is_read = is_read
        read = is_present[:, is_read].astype(np.float64)
        self._mean_terms = read.mean(axis=0)
        self._term_scales = 1 / (read.std(axis=0) * np.sqrt(max(1, read.shape[1])))
        self._terms = (read - self._mean_terms) * self._term_scales
        # What never varied says nothing, and must not move a text away from all bells.
        self._is_used = self._lengths.std(axis=0) > _IS_CONSTANT
        self._num_used = max(1, int(self._is_used.sum()))
        used = self._lengths * self._is_used
        products = used @ used.T / self._num_used
        norms = np.diag(products)
        self._distances = np.maximum(norms[:, None] + norms[None, :] - 2 * products, 0.0)
        self._linear_kernels = (self._terms @ self._terms.T, products)

    def fit(self, on_step: Callable[[int], None]) -> ProcessFit:
        num_steps = 0

        def count(_: object) -> None:
            nonlocal num_steps
            num_steps += 1
            on_step(num_steps)

        found = minimize(
            self._loss,
            _PRIOR_MEAN,
            jac=True,
            method="L-BFGS-B",
            bounds=_RANGE,
            callback=count,
            options={"maxiter": _MAX_ITERATIONS},
        )
        return self._fit_with(found.x)

    def _kernels(self, logs: _Floats) -> tuple[_Floats, ...]:
        """Return what each part adds to the covariance: noise, terms, lengths, bells."""
        noise, *amplitudes, width = np.exp(logs)
        bells = np.exp(-0.5 * self._distances / width**2)
        kernels = (*self._linear_kernels, bells)
        parts = (a * kernel for a, kernel in zip(amplitudes, kernels, strict=True))
        return (noise * np.eye(len(self._targets)), *parts)

    def _loss(self, logs: _Floats) -> tuple[float, _Floats]:
        """Return the negative logarithm of the posterior and its gradient."""
        parts = self._kernels(logs)
        factor = cho_factor(sum(parts) + _CONSTANT, lower=True)
        inverse = cho_solve(factor, np.eye(len(self._targets)))
        solved = inverse @ self._targets
        away = (logs - _PRIOR_MEAN) / _PRIOR_STD
        loss = (
            0.5 * self._targets @ solved + np.log(np.diag(factor[0])).sum() + 0.5 * np.sum(away**2)
        )
        by_width = parts[-1] * self._distances / np.exp(2 * logs[_WIDTH])
        slope = inverse - np.outer(solved, solved)
        slopes = [0.5 * float(np.sum(slope * part)) for part in (*parts, by_width)]
        return float(loss), np.array(slopes) + away / _PRIOR_STD

    def _fit_with(self, logs: _Floats) -> ProcessFit:
        parts = self._kernels(logs)
        factor = cho_factor(sum(parts) + _CONSTANT, lower=True)
        inverse = cho_solve(factor, np.eye(len(self._targets)))
        solved = inverse @ self._targets
        _, for_terms, for_lengths, for_bells, width = np.exp(logs)
        inverse_widths = self._is_used / (width * np.sqrt(self._num_used))
        term_weights = np.zeros(len(self._is_read))
        term_weights[self._is_read] = for_terms * (self._terms.T @ solved) * self._term_scales
        used = self._lengths * self._is_used
        process = GaussianProcess(
            bias=_single(
                [_CONSTANT * solved.sum() - self._mean_terms @ term_weights[self._is_read]]
            ),
            term_weights=_single(term_weights),
            length_weights=_single(for_lengths * (used.T @ solved) / self._num_used),
            inverse_widths=_single(inverse_widths),
            support=_single(self._lengths * inverse_widths),
            support_weights=_single(for_bells * solved),
        )
        return ProcessFit(process=process, left_out_errors=solved / np.diag(inverse))


def _single(numbers: object) -> FloatArray:
    return np.ascontiguousarray(numbers, dtype=np.float32)
