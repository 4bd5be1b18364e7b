"""What the experiment on rule K2 asks for, and that it tells a loss as one."""

import pytest

from justitia.sim.reproduce.decisions import learning
from justitia.sim.reproduce.experiment import Scale
from justitia.sim.reproduce.files import check_section
from justitia.testing.sim_plays import with_jcts

FULL = Scale()
QUICK = Scale(seeds=(11,), is_quick=True)


def told(factor_of_k2, scale=QUICK):
    """Tell planted outcomes: a fixed F takes 1.2 times as long as who knows all."""

    def outcome(job):
        if job.policy == "vtc":
            return with_jcts([30.0, 30.0])
        if job.settings.learning is not None:
            return with_jcts([10.0 * factor_of_k2, 10.0])
        return with_jcts([10.0, 10.0] if job.policy == "srjf" else [14.0, 10.0])

    jobs = learning.EXPERIMENT.jobs(scale)
    section = learning.EXPERIMENT.tell(scale, {job: outcome(job) for job in jobs})
    check_section(section)
    return section


def row(section, error, way):
    return next(each for each in section.tables[0].rows if each[:2] == (error, way))


def test_it_stays_within_its_budget_of_plays():
    assert len({job.name for job in learning.EXPERIMENT.jobs(FULL)}) <= 115
    assert len({job.name for job in learning.EXPERIMENT.jobs(QUICK)}) <= 20


def test_only_what_has_learned_is_warmed_up_and_by_other_runs():
    for job in learning.EXPERIMENT.jobs(FULL):
        assert job.warm_up is None or job.settings.learning is not None
        assert job.warm_up != job.case


@pytest.mark.parametrize(
    ("factor", "mean", "worst"), [(1.0, "1.000", "0.333"), (9.0, "5.000", "3")]
)
def test_a_win_and_a_loss_are_told_as_such(factor, mean, worst):
    section = told(factor)
    assert row(section, "53 %", "fixed F")[2] == "1.200"
    assert row(section, "53 %", "K2")[2] == mean
    assert row(section, "53 %", "K2")[4].startswith(worst)
    assert f"with a fixed F, {mean} with K2" in " ".join(section.paragraphs)
    assert section.figures[0].series[1].values == (float(mean), float(mean))


def test_all_errors_are_swept_at_full_scale():
    section = told(1.0, FULL)
    errors = {each[0] for each in section.tables[0].rows}
    assert errors >= {"0 %", "15 %", "25 %", "53 %", "100 %", "200 %", "452 %", "history"}
    assert len(section.figures[0].x) == 7
