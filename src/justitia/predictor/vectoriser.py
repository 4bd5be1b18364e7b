"""Learns a `Featuriser` from texts with scikit-learn.

Imported by training only: serving needs neither scikit-learn nor the seconds it takes to start.
"""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from justitia.predictor.features import Featuriser, FloatArray, analyse, length_features

_MIN_LENGTH_STD = 1e-3


def build_vectoriser(*, max_terms: int, min_documents: int) -> TfidfVectorizer:
    """Return the scikit-learn vectoriser whose weights `Featuriser` reproduces."""
    return TfidfVectorizer(
        analyzer=analyse,
        max_features=max_terms,
        min_df=min_documents,
        sublinear_tf=True,
        dtype=np.float32,
    )


def fit_featuriser(texts: list[str], *, max_terms: int) -> Featuriser:
    """Learn vocabulary, idf and the usual lengths from at least one text, whatever it holds."""
    vocabulary, idf = _fit_terms(texts, max_terms)
    lengths = np.stack([length_features(text) for text in texts]).astype(np.float64)
    std = lengths.std(axis=0)
    return Featuriser(
        vocabulary=vocabulary,
        idf=idf,
        length_mean=lengths.mean(axis=0).astype(np.float32),
        length_std=np.where(std < _MIN_LENGTH_STD, 1.0, std).astype(np.float32),
    )


def _fit_terms(texts: list[str], max_terms: int) -> tuple[tuple[str, ...], FloatArray]:
    """Return the vocabulary in column order with its idf; both empty if no text has a term.

    A term of one text alone teaches nothing about the next one, so two texts must share it, unless
    nothing is shared at all.
    """
    for min_documents in (2, 1):
        vectoriser = build_vectoriser(
            max_terms=max_terms, min_documents=min(min_documents, len(texts))
        )
        try:
            vectoriser.fit(texts)
        except ValueError:  # scikit-learn's word for "no term is left"
            continue
        terms = tuple(str(term) for term in vectoriser.get_feature_names_out())
        return terms, np.asarray(vectoriser.idf_, dtype=np.float32)
    return (), np.zeros(0, dtype=np.float32)
