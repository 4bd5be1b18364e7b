"""Predicts what a run will cost from its text, before its first inference.

Per application: length features and terms, then a regressor on log cost (`regressor`): a Gaussian
process, or the multi-layer perceptron of arXiv 2510.17015. `samples` reads what finished runs cost,
`training` learns a model from them, `artefact` stores and checks it, `serving` answers under a
deadline. Only `training` and what it imports (`gaussian_process_fit`, `mlp`, `vectoriser`) load
scipy, torch and scikit-learn; serving is numpy alone.
"""
