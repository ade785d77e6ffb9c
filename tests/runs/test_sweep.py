"""Sweep files: what they stand for, and what is wrong with those that stand for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvae import actions, paper
from tvae.runs import sweep
from tvae.runs.name import RunName
from tvae.runs.sweep import Job, SweepError

SWEEPS = Path(__file__).parents[2] / "sweeps"


def keys(jobs):
    return [(job.dataset, job.model, job.action or "", job.residual, job.d) for job in jobs]


@pytest.mark.parametrize("name", ["paper", "smoke"])
def test_all_ninety_nine_rows_of_the_paper_and_no_other(name):
    table = paper.tables().appendix
    printed = set(
        table[["dataset", "model", "action", "residual", "d"]].itertuples(index=False, name=None)
    )
    jobs = sweep.load(SWEEPS / f"{name}.yaml")
    assert len(jobs) == 99
    assert set(keys(jobs)) == printed


def test_the_book_sweep_begins_with_the_middle_block_of_table_2():
    jobs = sweep.load(SWEEPS / "book.yaml")
    table = paper.tables().knn
    block = table[table["d"].isin([25, 26])][["dataset", "model", "action", "residual", "d"]]
    assert set(keys(jobs[:10])) == set(block.itertuples(index=False, name=None))
    mnist = paper.tables().appendix.query("dataset == 'mnist' and d in (25, 26)")
    wanted = mnist[["dataset", "model", "action", "residual", "d"]].itertuples(
        index=False, name=None
    )
    assert set(wanted) <= set(keys(jobs))
    assert {job.preset for job in jobs} == {"book"}
    jobs += sweep.load(SWEEPS / "omniglot.yaml")
    baselines = {(job.dataset, job.model) for job in jobs if not job.trained}
    assert baselines == {
        (dataset, model) for dataset in paper.DATASETS for model in ("pixels", "pca", "untrained")
    }


def test_stability_has_ten_seeds_of_each():
    jobs = sweep.load(SWEEPS / "stability.yaml")
    assert sorted((job.model, job.seed) for job in jobs) == sorted(
        (model, seed) for model in ("tvae", "vae") for seed in range(10)
    )


def test_the_longer_runs_differ_from_those_of_stability_in_length_and_rate_alone():
    def settings(name):
        jobs = [job for job in sweep.load(SWEEPS / f"{name}.yaml") if job.seed == 0]
        return {job.model: job.config().to_dict() for job in jobs}

    short, long = settings("stability"), settings("plateau")
    assert short.keys() == long.keys() == {"tvae", "vae"}
    for model, config in long.items():
        differing = {key for key in config if config[key] != short[model][key]}
        assert differing == {"epochs", "halve_every"}
        assert config["halve_every"] == config["epochs"] == 3 * short[model]["epochs"]


def test_order_is_block_by_block_and_each_run_comes_once():
    jobs = sweep.expand(
        {
            "datasets": ["mnist"],
            "runs": [
                {"models": "vae"},
                {"models": ["tvae", "vae"], "actions": ["M", "A"], "residual": [False, True]},
            ],
        }
    )
    assert [job.name.split("_")[0] for job in jobs] == [
        "mnist-VAE-25",
        "mnist-M-26",
        "mnist-MR-26",
        "mnist-A-25",
    ]


@pytest.mark.parametrize(
    ("block", "word"),
    [
        ({"models": "vae"}, "datasets"),
        ({"datasets": "mnist", "model": "vae"}, "model"),
        ({"datasets": "mnist", 7: "vae"}, "no setting 7"),
        ({"datasets": "mnist", "models": "gan"}, "gan"),
        ({"datasets": "cifar"}, "cifar"),
        ({"datasets": "mnist", "actions": "Q"}, "Q"),
        ({"datasets": "mnist", "actions": "A", "residual": True}, "residual"),
        ({"datasets": "mnist", "preset": "slow"}, "slow"),
        ({"datasets": "mnist", "d": 0}, "positive"),
        ({"datasets": "mnist", "d": "25"}, "whole numbers"),
        ({"datasets": "mnist", "d": True}, "whole numbers"),
        ({"datasets": "mnist", "seeds": []}, "seeds is empty"),
        ({"datasets": "mnist", "epochs": 0}, "epochs"),
        ({"datasets": "mnist", "epochs": "many"}, "epochs must hold whole numbers, not 'many'"),
        ({"datasets": "mnist", "analytic": 1}, "analytic must hold true or false"),
        ({"datasets": "mnist", "learning_rate": None}, "learning_rate must hold numbers"),
        ({"datasets": "mnist", "anchors": 0}, "anchors must hold positive numbers, not 0"),
        ({"datasets": "mnist", "likelihood_error": -1}, "likelihood_error must hold positive"),
        ({"datasets": "mnist", "tag": 3}, "tag must hold names"),
        ({"datasets": "mnist", "max_steps": 0}, "max_steps"),
        ({"datasets": "mnist", "tag": "a/b"}, "tag"),
        ({"datasets": "mnist", "runs": {"d": 3}}, "list of blocks"),
        ({"datasets": "mnist", "runs": [{"epochs": 3}, {"epochs": 4}]}, "tag"),
    ],
)
def test_one_sentence_says_what_is_wrong(block, word, tmp_path):
    import yaml

    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(block))
    with pytest.raises(SweepError, match=word):
        sweep.load(path)


def test_own_actions_say_which_d_they_take_and_whether_they_have_a_residual_form(monkeypatch):
    monkeypatch.setattr(actions, "_REGISTRY", dict(actions._REGISTRY))

    @actions.register("Q3")
    class Triples(actions.Action):
        has_residual = False

        @classmethod
        def size_of_tau(cls, d):
            if d % 3:
                raise ValueError("d must be a multiple of three.")
            return d

    block = {"datasets": "mnist", "actions": ["Q3", "M", "A"], "d": [10, 25]}
    jobs = sweep.expand({**block, "residual": [False, True]})
    assert [str(RunName.of(job)) for job in jobs] == [
        *("mnist-Q3-12", "mnist-M-10", "mnist-MR-10", "mnist-A-10"),
        *("mnist-Q3-27", "mnist-M-26", "mnist-MR-26", "mnist-A-25"),
    ]
    assert [job.action for job in sweep.expand({**block, "residual": True})] == ["M", "M"]
    with pytest.raises(SweepError, match="no residual form of Q3, A"):
        sweep.expand({"datasets": "mnist", "actions": ["Q3", "A"], "residual": True})


def test_files_that_are_no_sweep(tmp_path):
    with pytest.raises(SweepError, match="no sweep file"):
        sweep.load(tmp_path / "absent.yaml")
    (tmp_path / "list.yaml").write_text("- a\n- b\n")
    with pytest.raises(SweepError, match="mapping"):
        sweep.load(tmp_path / "list.yaml")
    (tmp_path / "broken.yaml").write_text("datasets: [mnist\n")
    with pytest.raises(SweepError, match="not YAML"):
        sweep.load(tmp_path / "broken.yaml")


def test_a_job_survives_json():
    import json

    for job in sweep.load(SWEEPS / "smoke.yaml") + sweep.load(SWEEPS / "book.yaml"):
        assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
    job = sweep.expand({"datasets": "mnist", "families": ["rotation"]})[0]
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job


def test_one_family_may_be_written_without_a_list():
    (one,) = sweep.expand({"datasets": "mnist", "families": "rotation", "likelihood_images": None})
    assert one.config().families == ("rotation",)
    assert one.measures().likelihood_images is None


def test_a_small_set_is_stretched_unless_the_sweep_says_otherwise():
    wanted = {"datasets": ["mnist", "omniglot"], "preset": "book"}
    assert [job.epoch_images for job in sweep.expand(wanted)] == [None, 60000]
    assert [job.epoch_images for job in sweep.expand({**wanted, "preset": "quick"})] == [None] * 2
    assert sweep.expand({**wanted, "epoch_images": None})[1].epoch_images is None
    assert sweep.expand({**wanted, "epoch_images": 500})[0].epoch_images == 500


def test_equal_steps_on_a_smaller_set():
    job = Job("omniglot", "tvae", "A", preset="book", epoch_images=60000)
    config = job.schedule(3000)  # 30 steps an epoch instead of 600
    assert (config.epochs, config.halve_every) == (400, 100)
    steps = config.epochs * (2950 // 100)
    config = job.schedule(2950)
    assert abs(config.epochs * (2950 // 100) - 20 * 600) < 30
    assert steps > 0
    assert Job("omniglot", "tvae", "A", preset="book").schedule(3000).epochs == 20


def test_baselines_have_no_schedule_and_pixels_no_seed():
    jobs = sweep.expand({"datasets": "mnist", "models": ["pixels", "pca"], "seeds": [1, 2]})
    assert [(job.model, job.seed) for job in jobs] == [("pixels", 0), ("pca", 0)]
    assert "epochs" not in jobs[0].configuration()
    assert jobs[0].d == 784


def test_the_portraits_are_the_three_models_of_the_celeba_figures():
    import release_weights

    jobs = sweep.load(SWEEPS / "portraits.yaml")
    assert [job.name for job in jobs] == [
        f"portraits/{name}_book_seed0" for name in release_weights.PORTRAITS
    ]
    assert {job.config().triplets().families for job in jobs} == {("rotation",)}
    settings = [{**job.config().to_dict(), "model": "", "action": ""} for job in jobs]
    assert settings[0] == settings[1] == settings[2]  # as many steps of the same size for each
