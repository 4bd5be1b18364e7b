"""Predicts what a run will cost from its text, before its first inference.

Per application: TF-IDF and length features, then a small multi-layer perceptron on log cost (arXiv
2510.17015). `samples` reads what finished runs cost, `training` learns a model from them,
`artefact` stores and checks it, `serving` answers under a deadline. Only `training` and what it
imports (`mlp`, `vectoriser`) load torch and scikit-learn; serving is numpy alone.
"""
