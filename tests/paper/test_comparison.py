"""The standing: every row of the paper, beside the run nearest to it, and never beside another."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest
from ledgers import values

from tvae import paper
from tvae.paper import comparison, report
from tvae.runs import ledger
from tvae.runs.name import RunName
from tvae.runs.sweep import Job


def job(tag="", preset="book", model="tvae", action="A", **more):
    return Job("mnist", model, action if model == "tvae" else None, preset=preset, tag=tag, **more)


def write(results, made, steps=None, status="ok"):
    value = values(made, status=status)
    if steps is not None:
        value["training"]["steps"] = steps
    made_entry = ledger.Entry.checked(value)
    ledger.write(made_entry, results)
    return made_entry


# From the best to the worst: each must be chosen when all that come before are absent.
CHAIN = [
    (job(preset="paper"), 5),
    (job(), 10),
    (job(seed=1), 10),
    (job("longer"), 30),
    (job("shorter"), 20),
]


@pytest.mark.parametrize("first", range(len(CHAIN)))
def test_preference(tmp_path, first):
    # written worst first and best first: the order of the files must not matter
    for order, folder in ((1, tmp_path / "a"), (-1, tmp_path / "b")):
        for made, steps in CHAIN[first:][::order]:
            write(folder, made, steps)
        found = comparison.best("mnist", "A", 25, folder)
        assert found.configuration.to_dict() == CHAIN[first][0].configuration()


@pytest.mark.parametrize(
    "made",
    [
        job("smoke"),
        job("stability"),
        job(preset="quick"),
        job("moved", training=(("families", ("rotation", "translation")),)),
        job(training=(("source", "embedded"),)),
    ],
)
def test_other_experiments_never_count(tmp_path, made):
    write(tmp_path, made, 10**6)
    assert comparison.best("mnist", "A", 25, tmp_path) is None


def test_failed_runs_never_count(tmp_path):
    write(tmp_path, job(), status="failed")
    assert comparison.best("mnist", "A", 25, tmp_path) is None
    shorter = write(tmp_path, job("shorter"), 20)
    assert comparison.best("mnist", "A", 25, tmp_path) == shorter


def test_labels_and_dimensions(tmp_path):
    made = {
        ("M", 26): job(action="M", d=26),
        ("M^R", 26): job(action="M", residual=True, d=26),
        ("N^R", 25): job(action="N", residual=True),
        ("VAE+", 25): job(model="vae+"),
        ("VAE", 25): job(model="vae"),
        ("PCA", 25): job(model="pca"),
        ("untrained", 25): job(model="untrained"),
        ("pixels", 784): job(model="pixels", d=784),
    }
    written = {key: write(tmp_path, value) for key, value in made.items()}
    for (label, d), value in written.items():
        nominal = 25
        for name in (label, label.lower(), label.replace("^", "")):
            assert comparison.best("mnist", name, nominal, tmp_path) == value
        assert comparison.best("mnist", label, d, tmp_path) == value
        assert comparison.best("fashion-mnist", label, nominal, tmp_path) is None
        if label != "pixels":
            assert comparison.best("mnist", label, 100, tmp_path) is None
    assert comparison.best("mnist", "pixels", None, tmp_path) == written["pixels", 784]


def test_a_change_of_the_ledger_is_seen_and_an_answer_is_ones_own(tmp_path):
    shorter = write(tmp_path, job("shorter"), 20)
    found = comparison.best("mnist", "A", 25, tmp_path)
    found.metrics["mll"] = -1.0
    assert comparison.best("mnist", "A", 25, tmp_path) == shorter
    longer = write(tmp_path, job("longer"), 30)
    assert comparison.best("mnist", "A", 25, tmp_path) == longer
    (tmp_path / "longer" / "mnist-A-25_book_seed0.json").unlink()
    assert comparison.best("mnist", "A", 25, tmp_path) == shorter


def test_wrong_questions_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no row 'Q'.*A, M, M\^R"):
        comparison.best("mnist", "Q", 25, tmp_path)
    with pytest.raises(ValueError, match="needs a dimension"):
        comparison.best("mnist", "A", None, tmp_path)
    with pytest.raises(ValueError, match="no table of 'celeba'"):
        comparison.rows("celeba", results=tmp_path)
    with pytest.raises(ValueError, match="no rows of d = 26"):
        comparison.rows(d=26, results=tmp_path)


def test_rows_are_the_papers_and_the_baselines(tmp_path):
    table = comparison.rows(results=tmp_path)
    printed = paper.tables().appendix
    ours = table[table["label"].isin(report.LABELS)]
    assert len(ours) == len(printed) == 99
    assert ours["label"].tolist() == [RunName.of(row).label for _, row in printed.iterrows()]
    assert ours["d"].tolist() == printed["d"].tolist()
    assert set(zip(ours["label"], ours["nominal"], strict=True)) == set(
        itertools.product(report.LABELS, comparison.DIMENSIONS)
    )
    for metric in paper.METRICS:
        pd.testing.assert_series_equal(
            ours[f"{metric}_paper"], printed[metric], check_names=False, check_index=False
        )
        assert table[metric].isna().all() and table[f"{metric}_se"].isna().all()
    rest = table[~table["label"].isin(report.LABELS)]
    assert len(rest) == 3 * (3 + 3 + 1)
    assert rest[[f"{m}_paper" for m in paper.METRICS]].isna().all(axis=None)
    assert table["seconds"].isna().all() and (table["preset"] == "").all()


def test_rows_hold_what_best_finds(tmp_path):
    written = [
        write(tmp_path, job(action="M", d=26)),
        write(tmp_path, job("shorter", model="vae"), 7),
        write(tmp_path, job(model="pixels", d=784)),
        write(tmp_path, Job("omniglot", "tvae", "N", True, 100, preset="paper")),
    ]
    table = comparison.rows(results=tmp_path)
    run = table[table["preset"] != ""]
    assert len(run) == len(written)
    for _, row in run.iterrows():
        found = comparison.best(row["dataset"], row["label"], row["nominal"] or None, tmp_path)
        assert found in written
        for metric in paper.METRICS:
            for column, source in ((metric, "metrics"), (f"{metric}_se", "standard_errors")):
                value = getattr(found, source).get(metric)
                assert row[column] == value if value is not None else pd.isna(row[column])
        assert row["seconds"] == found.seconds.total
        assert row["preset"] == found.configuration.preset
        assert row["tag"] == found.configuration.tag
        assert row["images"] == found.data["train"].count
        steps = found.training.get("steps")
        assert row["steps"] == steps if steps is not None else pd.isna(row["steps"])


def test_slices(tmp_path):
    write(tmp_path, job(model="pixels", d=784))
    table = comparison.rows("mnist", 25, tmp_path)
    assert set(table["dataset"]) == {"mnist"}
    assert len(table) == len(report.LABELS) + 3
    assert table.set_index("label").loc[["A", "M", "pixels"], "d"].tolist() == [25, 26, 784]
    assert len(comparison.rows("omniglot", results=tmp_path)) == 33 + 7
    assert len(comparison.rows(d=10, results=tmp_path)) == 3 * (11 + 3)


def test_missing_names_what_was_not_run(tmp_path):
    assert "120 of 120" in comparison.missing(comparison.rows(results=tmp_path))
    for label in report.LABELS:
        if label != "T":
            config = Job(
                "mnist",
                "tvae" if "VAE" not in label else label.lower(),
                label.removesuffix("^R") if "VAE" not in label else None,
                label.endswith("^R"),
                26 if label.startswith("M") else 25,
                preset="book",
            )
            write(tmp_path, config)
    table = comparison.rows("mnist", results=tmp_path)
    lines = comparison.missing(table[table["label"].isin(report.LABELS)]).splitlines()
    assert lines == [
        "not run yet: 23 of 33 rows",
        "  mnist, d = 100: all 11",
        "  mnist, d = 25: T",
        "  mnist, d = 10: all 11",
    ]
    pixels = table[table["label"] == "pixels"]
    assert comparison.missing(pixels).splitlines()[1] == "  mnist: pixels"
    assert comparison.missing(table[table["label"] == "A"].iloc[1:2]) == "not run yet: none"


def test_schedules_keep_runs_apart_that_were_trained_differently(tmp_path):
    assert comparison.schedules(tmp_path) == []
    made = {
        ("book", ""): write(tmp_path, job(), 40),
        ("paper", ""): write(tmp_path, job(preset="paper"), 5),
        ("book", "longer"): write(tmp_path, job("longer"), 30),
        ("book", "shorter"): write(tmp_path, job("shorter"), 20),
    }
    write(tmp_path, job("shorter", model="vae"), 20)
    write(tmp_path, job("smoke"), 10**6)
    pixels = write(tmp_path, job(model="pixels", d=784))
    order = [("paper", ""), ("book", ""), ("book", "longer"), ("book", "shorter")]
    assert comparison.schedules(tmp_path) == order
    for schedule in order:
        table = comparison.rows("mnist", 25, tmp_path, schedule=schedule).set_index("label")
        assert table.loc["A", "mll"] == made[schedule].metrics["mll"]
        assert table.loc["pixels", "knn_out"] == pixels.metrics["knn_out"]
        assert pd.isna(table.loc["VAE", "mll"]) == (schedule != ("book", "shorter"))


def test_a_seed_leaves_its_own_runs_and_the_baselines(tmp_path):
    made = {seed: write(tmp_path, job(seed=seed), 40) for seed in (0, 1)}
    other = write(tmp_path, job("shorter", seed=2), 20)
    pixels = write(tmp_path, job(model="pixels", d=784))
    for seed, its in {**made, 2: other}.items():
        its.metrics["mll"] = 100.0 + seed
        ledger.write(its, tmp_path)
        table = comparison.rows("mnist", 25, tmp_path, seed=seed).set_index("label")
        assert table.loc["A", "mll"] == 100 + seed
        assert table.loc["pixels", "knn_out"] == pixels.metrics["knn_out"]
        strict = comparison.rows("mnist", 25, tmp_path, schedule=("book", ""), seed=seed)
        assert pd.isna(strict.set_index("label").loc["A", "mll"]) == (seed == 2)
    assert comparison.rows("mnist", 25, tmp_path, seed=3).set_index("label")["mll"].isna().all()


# --- errors -------------------------------------------------------------------------------------


def seeded(results, seed, **changes):
    """A at d = 25 from this seed, with the metrics and other fields given."""
    value = values(job(seed=seed))
    value["metrics"] |= changes.pop("metrics", {})
    ledger.write(ledger.Entry.checked({**value, **changes}), results)


def test_an_error_by_digit_is_taken_where_it_is_and_estimated_where_it_is_not(tmp_path):
    count = {"knn_out_queries": 320_000}
    share = {"knn_out": 0.8}
    binomial = (0.8 * 0.2 / 320_000) ** 0.5
    seeded(tmp_path, 0, metrics=share, standard_errors={"knn_out": binomial}, evaluation=count)
    row = comparison.rows("mnist", 25, tmp_path).set_index("label").loc["A"]
    assert row["knn_out_se"] == pytest.approx(binomial) and not row["grouped"]  # nothing to go by
    by_digit = {"standard_errors": {"knn_out": 3 * binomial}, "metrics": share}
    made = values(job(model="vae"))
    made["metrics"] |= share
    made |= {"standard_errors": by_digit["standard_errors"]}
    made["evaluation"] = {**count, "knn_out_groups": 10_000}
    ledger.write(ledger.Entry.checked(made), tmp_path)
    table = comparison.rows("mnist", 25, tmp_path).set_index("label")
    assert table.loc["VAE", "knn_out_se"] == 3 * binomial and table.loc["VAE", "grouped"]
    assert table.loc["A", "knn_out_se"] == pytest.approx(3 * binomial)
    assert not table.loc["A", "grouped"]
    again = {"knn_out_again": {"value": 0.8, "standard_error": 0.007}}
    seeded(tmp_path, 0, metrics=share, further=again, evaluation=count)
    row = comparison.rows("mnist", 25, tmp_path).set_index("label").loc["A"]
    assert row["knn_out_se"] == 0.007 and row["grouped"]


@pytest.mark.parametrize(
    "evaluation, further, expected",
    [
        ({}, {}, 0.5),  # an older entry: sampling 0.3 and, from the ELBO, images 0.4
        ({}, {"mll_again": {"value": 90.0, "standard_error": 0.6}}, 0.6),
        ({"mll_sampling_error": 0.2}, {}, 0.3),
    ],
)
def test_the_error_of_the_likelihood_has_the_test_images_in_it(
    tmp_path, evaluation, further, expected
):
    errors = {"mll": 0.3, "elbo": 0.4}
    seeded(tmp_path, 0, standard_errors=errors, evaluation=evaluation, further=further)
    row = comparison.rows("mnist", 25, tmp_path).set_index("label").loc["A"]
    assert row["mll_se"] == pytest.approx(expected)
    assert row["mll_sampling"] == evaluation.get("mll_sampling_error", 0.3)


def test_averages_are_means_over_seeds_with_the_error_between_them(tmp_path):
    for seed, share in enumerate((0.6, 0.7, 0.8)):
        seeded(tmp_path, seed, metrics={"knn_out": share}, standard_errors={"knn_out": 0.03})
    write(tmp_path, job(model="vae"))
    write(tmp_path, job("shorter", seed=4))
    assert comparison.spread("knn_out", "mnist", tmp_path) == (pytest.approx(0.1), 2)
    table = comparison.averages(tmp_path).set_index(["dataset", "label", "nominal"])
    row = table.loc[("mnist", "A", 25)]
    assert row["knn_out"] == pytest.approx(0.7) and row["seeds"] == 3
    student = 4.302653 / 1.959964  # of two degrees of freedom
    assert row["knn_out_se"] == pytest.approx((0.03**2 + (student * 0.1) ** 2 / 3) ** 0.5, rel=1e-6)
    # a row with one seed borrows the spread
    alone = table.loc[("mnist", "VAE", 25)]
    assert alone["seeds"] == 1
    assert alone["mll_se"] >= 0.25
    # single runs are what they were
    single = comparison.rows("mnist", 25, tmp_path).set_index("label")
    assert single.loc["A", "knn_out"] == 0.6


def test_the_spread_is_pooled_over_all_data_sets_where_its_own_is_thin(tmp_path):
    for dataset, shares in (("mnist", (0.5, 0.7)), ("fashion-mnist", (0.4, 0.4, 0.4))):
        for seed, share in enumerate(shares):
            value = values(Job(dataset, "tvae", "A", preset="book", seed=seed))
            value["metrics"]["knn_out"] = share
            ledger.write(ledger.Entry.checked(value), tmp_path)
    own, freedom = comparison.spread("knn_out", "fashion-mnist", tmp_path)
    assert own == pytest.approx(0, abs=1e-12) and freedom == 2
    assert comparison.spread("knn_out", "mnist", tmp_path) == (pytest.approx((0.02 / 3) ** 0.5), 3)
    assert comparison.spread("c1", "omniglot", tmp_path)[1] == 3
    empty = comparison.spread("knn_out", "mnist", tmp_path / "nothing")
    assert empty[1] == 0 and pd.isna(empty[0])


def test_the_walk_is_the_distance_from_a_line_over_the_second_half(tmp_path):
    steps = [1.0, -1.0, 1.0, -1.0]
    curve = [{"epoch": k + 1, "test_nllx0": 99.0, "test_kl0": 5.0} for k in range(4)]
    curve += [
        {"epoch": k + 5, "test_nllx0": 80.0 - k + s, "test_kl0": 20.0 + k - s}
        for k, s in enumerate(steps)
    ]
    seeded(tmp_path, 0, curve=curve)
    entry = comparison.best("mnist", "A", 25, tmp_path)
    # a line through +1 −1 +1 −1 has the slope −0.4: squares of 0.4, 1.2, 1.2, 0.4
    assert comparison.walk(entry, "nllx0") == pytest.approx((3.2 / 2) ** 0.5)
    assert comparison.walk(entry, "kl0") == pytest.approx((3.2 / 2) ** 0.5)
    assert comparison.walk(entry, "elbo") == comparison.walk(entry, "mll")
    assert comparison.walk(entry, "mll") == pytest.approx(0, abs=1e-9)
    assert pd.isna(comparison.walk(entry, "knn_out"))
    table = comparison.averages(tmp_path).set_index(["dataset", "label", "nominal"])
    assert table.loc[("mnist", "A", 25), "seeds"] == 1


def test_a_part_of_a_data_set_and_other_experiments_never_stand_for_a_row(tmp_path):
    value = values(job())
    value["data"]["train"]["note"] = "138 characters of 5 alphabets, not the full set"
    ledger.write(ledger.Entry.checked(value), tmp_path)
    for tag in ("eight-alphabets", "no-action", "view-kl", "tie", "three-times"):
        write(tmp_path, job(tag))
    assert comparison.best("mnist", "A", 25, tmp_path) is None
    assert comparison.schedules(tmp_path) == []
