"""Evaluation: the twelve reported columns, log-likelihood, nearest neighbours and baselines."""

from tvae.evaluation.baselines import PCA, Pixels, Untrained
from tvae.evaluation.inference import Embedding, embed
from tvae.evaluation.knn import Neighbours, knn_accuracy, knn_predict, vote
from tvae.evaluation.likelihood import LogLikelihood, log_likelihood
from tvae.evaluation.metrics import METRICS, Metrics, evaluate

__all__ = [
    "METRICS",
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
