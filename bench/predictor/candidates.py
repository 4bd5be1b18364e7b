"""The predictors that are compared: the product's two kinds and its rivals.

Each learns ln(cost) of one application from prompts and says it for others. The rivals' numbers are
the product's own length features; what they make of words is said with each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from encoder import Encoder
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import BayesianRidge, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from justitia.client.prompts import hash_prompt
from justitia.predictor.features import length_features
from justitia.predictor.learner import best_num_steps, learn
from justitia.predictor.regressor import ModelKind
from justitia.predictor.samples import Sample
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import split_by_prompt

KEY = b"sixteen bytes at least"
MAX_SVD = 8
ALPHAS = np.logspace(-3, 3, 25)


class Candidate(Protocol):
    def fit(self, prompts: Sequence[str], log_costs: np.ndarray) -> object: ...

    def predict(self, prompts: Sequence[str]) -> np.ndarray: ...


class Product:
    """What `justitia train` would serve."""

    def __init__(self, kind: ModelKind):
        self.settings = TrainingSettings(kind=kind, min_samples=2)
        self.model = None

    def fit(self, prompts, log_costs):
        samples = [
            Sample(application="a", prompt=prompt, cost_kvtt=float(np.exp(log_cost)))
            for prompt, log_cost in zip(prompts, log_costs, strict=True)
        ]
        num_steps = 0
        if self.settings.kind is ModelKind.NETWORK:
            learnt, judges = split_by_prompt(samples, settings=self.settings, purpose="validation")
            num_steps = best_num_steps(learnt, judges or learnt, self.settings, _nobody)
        self.model = learn(samples, self.settings, num_steps, _nobody)
        return self

    def predict(self, prompts):
        return np.log([self.model.predict(prompt).cost_kvtt for prompt in prompts])


class Hashed(Product):
    """The product's default where an application's privacy is Hashed."""

    def fit(self, prompts, log_costs):
        return super().fit([hash_prompt(prompt, KEY) for prompt in prompts], log_costs)

    def predict(self, prompts):
        return super().predict([hash_prompt(prompt, KEY) for prompt in prompts])


class Mean:
    """The geometric mean of the costs, whatever the prompt."""

    def fit(self, _prompts, log_costs):
        self.log_mean = float(np.mean(log_costs))
        return self

    def predict(self, prompts):
        return np.full(len(prompts), self.log_mean)


class WithSvd:
    """Length features and the main directions of TF-IDF, as many as the samples carry."""

    def __init__(self, make_estimator):
        self.make_estimator = make_estimator

    def fit(self, prompts, log_costs):
        num_directions = max(1, min(MAX_SVD, len(prompts) // 10))
        words = make_pipeline(
            TfidfVectorizer(sublinear_tf=True, min_df=1),
            TruncatedSVD(num_directions, random_state=0),
        )
        union = make_union(LENGTHS, words)
        self.pipeline = make_pipeline(union, StandardScaler(), self.make_estimator())
        self.pipeline.fit(prompts, log_costs)
        return self

    def predict(self, prompts):
        return self.pipeline.predict(prompts)


def _nobody(_step):
    """Tell nobody how far it is."""


def _lengths(prompts):
    return np.array([length_features(prompt) for prompt in prompts])


def _prompt_length(prompts):
    return np.log1p([[len(prompt)] for prompt in prompts])


LENGTHS = FunctionTransformer(_lengths)


def _on_lengths(estimator) -> Pipeline:
    return make_pipeline(LENGTHS, StandardScaler(), estimator)


def _boosting():
    return GradientBoostingRegressor(
        n_estimators=80, max_depth=2, learning_rate=0.1, subsample=0.8, random_state=0
    )


@dataclass(frozen=True)
class Entry:
    """A candidate; ``sizes``: only with so many samples, where more would take hours."""

    what: str
    make: Callable[[], Candidate]
    sizes: tuple[int, ...] = ()


CANDIDATES = {
    "process": Entry(
        "**product's default**: Gaussian process on length features and telling words",
        lambda: Product(ModelKind.GAUSSIAN_PROCESS),
    ),
    "hashed": Entry(
        "the same, of prompts as `privacy: Hashed` sends them",
        lambda: Hashed(ModelKind.GAUSSIAN_PROCESS),
    ),
    "network": Entry(
        "product's `network`: TF-IDF and length features, 4-layer MLP",
        lambda: Product(ModelKind.NETWORK),
    ),
    "paper": Entry(
        "as the paper says it: TF-IDF alone, 4-layer MLP (scikit-learn)",
        lambda: TransformedTargetRegressor(
            make_pipeline(
                TfidfVectorizer(sublinear_tf=True),
                MLPRegressor(hidden_layer_sizes=(64, 32, 16), max_iter=1000, random_state=0),
            ),
            transformer=StandardScaler(),
            check_inverse=False,
        ),
    ),
    "encoder": Entry(
        "small transformer encoder, trained from scratch: stands in for S³'s DistilBERT, "
        "without its pretraining; at one size, since it takes ten seconds for each model",
        Encoder,
        sizes=(100,),
    ),
    "mean": Entry("constant: the geometric mean", Mean),
    "length": Entry(
        "line through the prompt's length",
        lambda: make_pipeline(FunctionTransformer(_prompt_length), RidgeCV(ALPHAS)),
    ),
    "neighbours": Entry(
        "3 nearest neighbours by length features",
        lambda: _on_lengths(KNeighborsRegressor(3, weights="distance")),
    ),
    "ridge": Entry("ridge on length features", lambda: _on_lengths(RidgeCV(ALPHAS))),
    "bayes": Entry("Bayesian ridge on length features", lambda: _on_lengths(BayesianRidge())),
    "bayes_svd": Entry(
        "Bayesian ridge on length features and TF-IDF's main directions",
        lambda: WithSvd(BayesianRidge),
    ),
    "boosting": Entry("gradient boosting on length features", lambda: _on_lengths(_boosting())),
    "boosting_svd": Entry(
        "gradient boosting on length features and TF-IDF's main directions",
        lambda: WithSvd(_boosting),
    ),
    "trees": Entry(
        "100 extremely randomised trees on length features",
        lambda: _on_lengths(ExtraTreesRegressor(100, max_features=0.6, random_state=0)),
    ),
}
