"""Evaluation: the twelve reported columns, log-likelihood, nearest neighbours and baselines."""

from tvae.evaluation.baselines import PCA, Pixels, Untrained
from tvae.evaluation.knn import Neighbours, knn_accuracy, knn_predict, vote
from tvae.evaluation.likelihood import LogLikelihood, log_likelihood
from tvae.evaluation.metrics import COLUMNS, Metrics, evaluate
from tvae.evaluation.streaming import Embedding, embed

__all__ = [
    "COLUMNS",
    "PCA",
    "Embedding",
    "LogLikelihood",
    "Metrics",
    "Neighbours",
    "Pixels",
    "Untrained",
    "embed",
    "evaluate",
    "knn_accuracy",
    "knn_predict",
    "log_likelihood",
    "vote",
]
