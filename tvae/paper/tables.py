"""The numbers printed in the paper's tables, as data.

Five files lie beside this module: the three appendix tables (one per data set, 33 rows each),
Table 1 (log-likelihood) and Table 2 (kNN accuracy). They hold figures only; the columns are the
package's own twelve metrics, so that a measured row and a printed row can be laid side by side.

    import tvae.paper
    tables = tvae.paper.tables()
    tables.appendix.query("dataset == 'mnist' and d == 25")
"""

from dataclasses import dataclass
from importlib import resources

import pandas as pd

from tvae.evaluation.metrics import METRICS

DATASETS = ("mnist", "fashion-mnist", "omniglot")


@dataclass(frozen=True)
class Tables:
    """Fresh copies of the three kinds of table; change them as you like.

    `appendix` has 99 rows: dataset, model (tvae, vae+, vae), action ("" for the baselines), residual
    (bool), d, and the twelve metrics (NaN where the paper has none).
    `log_likelihood` is Table 1 in long form: dataset, model, action, residual, d, log_likelihood.
    `knn` is Table 2 in long form: dataset, model, action, residual, d, knn_in, knn_out.
    """

    appendix: pd.DataFrame
    log_likelihood: pd.DataFrame
    knn: pd.DataFrame


def _read(name: str) -> pd.DataFrame:
    with (resources.files("tvae.paper") / name).open("r", encoding="utf-8") as file:
        table = pd.read_csv(file, dtype={"action": str})
    table["action"] = table["action"].fillna("")
    return table.rename(columns={"zdim": "d"})


def _appendix() -> pd.DataFrame:
    table = pd.concat([_read(f"appendix_{name}.csv") for name in DATASETS], ignore_index=True)
    table["residual"] = table["residual"].fillna(0).astype(bool)
    return table.astype(dict.fromkeys(METRICS, float))


def _main_text(table: pd.DataFrame) -> pd.DataFrame:
    # The N of the main text is the residual N of the appendix; its A and M are the plain ones.
    table.insert(2, "residual", table["action"] == "N")
    return table


def _log_likelihood() -> pd.DataFrame:
    wide = _main_text(_read("table1_log_likelihood.csv"))
    keys = ["model", "action", "residual", "d"]
    long = wide.melt(keys, list(DATASETS), var_name="dataset", value_name="log_likelihood")
    return long[["dataset", *keys, "log_likelihood"]]


def _knn() -> pd.DataFrame:
    wide = _main_text(_read("table2_knn.csv"))
    parts = [
        wide.assign(dataset=name, knn_in=wide[name], knn_out=wide[f"{name}-affnist"])
        for name in ("mnist", "fashion-mnist")
    ]
    columns = ["dataset", "model", "action", "residual", "d", "knn_in", "knn_out"]
    return pd.concat(parts, ignore_index=True)[columns]


def items() -> pd.DataFrame:
    """What the paper shows: every figure, table and algorithm, and the appendices that derive.

    Columns: key (the paper's own label, where it has one), item (as it is numbered), what.
    """
    with (resources.files("tvae.paper") / "items.csv").open("r", encoding="utf-8") as file:
        return pd.read_csv(file)


def tables() -> Tables:
    """Read the paper's tables from the package."""
    return Tables(_appendix(), _log_likelihood(), _knn())


def row(
    dataset: str, model: str, action: str = "", residual: bool = False, d: int = 25
) -> dict[str, float | None] | None:
    """The twelve printed numbers of one configuration, or None if the paper has no such row."""
    table = _appendix().set_index(["dataset", "model", "action", "residual", "d"])
    key = (dataset, model, action, residual, d)
    if key not in table.index:
        return None
    return {
        name: None if pd.isna(value) else float(value) for name, value in table.loc[key].items()
    }
