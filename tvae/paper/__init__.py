"""The paper: its printed tables and items as data, and our rows beside them.

from tvae import paper
paper.tables().appendix.query("dataset == 'mnist' and d == 25")
"""

from tvae.evaluation.metrics import METRICS
from tvae.paper.tables import DATASETS, Tables, items, row, tables

__all__ = ["DATASETS", "METRICS", "Tables", "items", "row", "tables"]
