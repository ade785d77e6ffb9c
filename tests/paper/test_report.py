"""The report: every number from a file, none without one."""

from __future__ import annotations

import pytest
from ledgers import entry

from tvae import paper
from tvae.paper import report
from tvae.runs import ledger
from tvae.runs.sweep import Job

JOBS = [
    Job("mnist", "tvae", "A", preset="book"),
    Job("mnist", "tvae", "M", d=26, preset="book"),
    Job("mnist", "tvae", "N", residual=True, preset="book"),
    Job("mnist", "tvae", "A", d=10, preset="book"),
    Job("mnist", "vae", preset="book"),
    Job("mnist", "pca", preset="book"),
    Job("mnist", "pixels", d=784, preset="book"),
    Job("omniglot", "vae+", preset="paper"),
    Job("mnist", "tvae", "A", preset="quick", tag="smoke"),
]


@pytest.fixture
def results(tmp_path):
    for job in JOBS:
        ledger.write(entry(job), tmp_path)
    return tmp_path


def test_ours_stand_beside_the_papers(results):
    ((_, found),) = report.compare(results, dataset="mnist", action="A", d=25).iterrows()
    printed = paper.row("mnist", "tvae", "A", False, 25)
    cells = report.cells(found)
    for place, metric in enumerate(paper.METRICS):
        ours = entry(JOBS[0]).metrics[metric]
        assert found[metric] == ours
        assert found[f"{metric}_paper"] == printed[metric]
        shown = float(cells["ours − paper"][place].replace("−", "-"))
        assert shown == pytest.approx(ours - printed[metric], abs=0.006)


def test_slices(results):
    labels = lambda **slice: list(report.compare(results, **slice)["label"])  # noqa: E731
    assert set(labels(d=25, dataset="mnist")) == {"A", "M", "N^R", "VAE", "PCA", "pixels"}
    assert labels(action="nr") == ["N^R"]
    assert set(labels(action=["A", "vae"], dataset="mnist")) == {"A", "VAE"}
    assert labels(preset="paper") == ["VAE+"]
    assert labels(tag="smoke") == ["A"]


def test_baselines_have_no_printed_numbers(results):
    found = report.compare(results, action=["pca", "pixels"])
    there = [metric for metric in paper.METRICS if found[metric].notna().any()]
    assert there == ["knn_in", "knn_out"] and len(found) == 2
    assert found[[f"{metric}_paper" for metric in paper.METRICS]].isna().all(axis=None)


@pytest.mark.parametrize("format", report.FORMATS)
def test_every_number_of_the_slice_is_shown_and_deleting_a_file_removes_its_row(results, format):
    text = report.report(results, format=format)
    for job in JOBS[:-1]:
        for name, value in entry(job).metrics.items():
            if value is not None:
                assert f"{value:.3f}" if name.startswith("knn") else f"{value:.2f}" in text
    assert "smoke: 1 runs, 1 ok" in text
    gone = entry(JOBS[0]).metrics["mll"]
    (results / f"{JOBS[0].name}.json").unlink()
    after = report.report(results, format=format)
    assert f"{gone:.2f}" in text and f"{gone:.2f}" not in after
    assert len(after.splitlines()) < len(text.splitlines())


def test_formats_look_like_what_they_are(results):
    text = report.report(results, format="text").splitlines()
    assert "mnist, preset book" in text
    assert any(line.startswith("A ") and " ours " in line for line in text)
    markdown = report.report(results, format="markdown")
    tables = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in tables} == {17}
    latex = report.report(results, format="latex")
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    rows = [line for line in latex.splitlines() if line.endswith(r"\\") and "multi" not in line]
    assert {line.count("&") for line in rows} == {15}
    with pytest.raises(ValueError, match="html"):
        report.report(results, format="html")


def test_failed_runs_are_named_and_an_empty_ledger_says_so(tmp_path):
    assert "no such run" in report.report(tmp_path)
    ledger.write(entry(JOBS[0], status="failed"), tmp_path)
    text = report.report(tmp_path)
    assert "mnist-A-25, preset book, seed 0: failed" in text


def test_order_follows_the_paper(results):
    text = report.report(results, dataset="mnist")
    first = [
        line.split()[0] for line in text.splitlines() if "  ours   " in line and line[0] != " "
    ]
    assert first == ["A", "M", "N^R", "VAE", "A", "PCA", "pixels"]
