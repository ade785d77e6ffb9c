"""The package's copy of the paper's tables agrees with itself and with the facts known about it."""

from __future__ import annotations

import numpy as np
import pytest

import tvae.paper


@pytest.fixture(scope="module")
def tables() -> tvae.paper.Tables:
    return tvae.paper.tables()


def test_there_are_ninety_nine_distinct_rows(tables):
    keys = tables.appendix[["dataset", "model", "action", "residual", "d"]]
    assert len(keys) == 99
    assert not keys.duplicated().any()
    assert keys.groupby("dataset").size().to_dict() == dict.fromkeys(tvae.paper.DATASETS, 33)


def test_elbo_is_reconstruction_plus_divergence(tables):
    table = tables.appendix
    assert np.abs(table["nllx0"] + table["kl0"] - table["elbo"]).max() < 0.035


def test_block_actions_have_even_dimension(tables):
    blocks = tables.appendix[tables.appendix["action"].isin(["M", "MA"])]
    assert set(blocks["d"]) == {10, 26, 100}
    assert set(tables.appendix["d"]) == {10, 25, 26, 100}


def test_missing_numbers_are_where_they_must_be(tables):
    table = tables.appendix
    views = ["nllx1", "nllx2"]
    latent = ["c1", "c2", "nll", "div"]
    assert table.loc[table["model"] == "vae", views + latent].isna().all().all()
    assert table.loc[table["model"] == "vae+", latent].isna().all().all()
    assert table.loc[table["model"] == "vae+", views].notna().all().all()
    assert table.loc[table["model"] == "tvae", views + latent].notna().all().all()
    assert (table["knn_in"].isna() == (table["dataset"] == "omniglot")).all()


def test_main_text_tables_equal_the_appendix(tables):
    keys = ["dataset", "model", "action", "residual", "d"]
    both = tables.log_likelihood.merge(tables.appendix, on=keys, validate="1:1")
    assert len(both) == 45
    # Table 1 prints one digit, partly cut and partly rounded
    assert np.abs(both["log_likelihood"] + both["mll"]).max() < 0.11
    both = tables.knn.merge(tables.appendix, on=keys, validate="1:1", suffixes=("", "_appendix"))
    assert len(both) == 30
    for name in ("knn_in", "knn_out"):
        assert np.abs(both[name] - both[f"{name}_appendix"]).max() < 1e-9


def test_row_finds_one_configuration():
    found = tvae.paper.row("mnist", "tvae", "A", False, 25)
    assert found is not None
    assert tuple(found) == tvae.paper.METRICS
    assert found["c1"] == 3.56
    vae = tvae.paper.row("omniglot", "vae", d=25)
    assert vae is not None and vae["c1"] is None and vae["knn_in"] is None
    assert tvae.paper.row("mnist", "tvae", "M", False, 25) is None
