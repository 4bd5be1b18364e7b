"""Experiments that are planted in tests: quick ones, one that fails, one that does not end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from justitia.sim.reproduce.catalogue import Part
from justitia.sim.reproduce.experiment import (
    Case,
    Experiment,
    Figure,
    Job,
    Measurement,
    Outcomes,
    Play,
    Scale,
    Section,
    Series,
    Table,
)
from justitia.sim.reproduce.runner import Watcher
from justitia.sim.reproduce.store import OutcomeStore, entry_name
from justitia.sim.reproduce.worker import Failure, work
from justitia.testing.sim_jobs import fail, note, number, small_scenario, wait_while_piped

POLICIES = ("fcfs", "vtc", "justitia")


def plays(scale: Scale) -> list[Job]:
    """Play every seed's scenario under three policies."""
    return [
        Play(Case.of(small_scenario, seed=seed), policy)
        for seed in scale.seeds
        for policy in POLICIES
    ]


def tell_jct(_: Scale, outcomes: Outcomes) -> Section:
    """Tell mean JCTs."""
    means = {job: outcomes[job].summarize().mean_jct_s for job in outcomes}
    rows = [(job.policy, job.case.name, mean, 0.1, None) for job, mean in means.items()]
    first = [job for job in means if job.case == next(iter(means)).case]
    return Section(
        paragraphs=("Of *two* runs the small one is `short`.", "a < b & c | d"),
        tables=(
            Table(
                title="Mean JCT",
                columns=("policy", "case", "ours, s", "paper, s", "nothing"),
                rows=tuple(rows),
                note="A note with <b>.",
            ),
        ),
        figures=(
            Figure(
                name="means",
                title="Mean JCT",
                kind="bars",
                x=tuple(job.policy for job in first),
                series=(
                    Series(label="justitia", values=tuple(means[job] for job in first)),
                    Series(label="paper", values=(0.3, 0.2, 0.1), is_paper=True),
                ),
                y_label="mean JCT, s",
            ),
        ),
    )


def run_here(
    jobs: Sequence[Job], store: OutcomeStore, *, num_workers: int, watcher: Watcher
) -> dict[str, Failure]:
    """Run jobs in this process, in the place of ``run_jobs``."""
    assert num_workers >= 1
    failures = {}
    for job in jobs:
        watcher.started(job)
        failure = work(job, store, entry_name(job))
        watcher.ended(job, failure)
        if failure is not None:
            failures[job.name] = failure
    return failures


def experiment(name: str, *jobs: Job, **others: Any) -> Experiment:
    """Make an experiment of given jobs; it tells their outcomes in a table."""

    def tell(_: Scale, outcomes: Outcomes) -> Section:
        rows = tuple((job.name, str(outcome)) for job, outcome in outcomes.items())
        return Section(tables=(Table(title="Outcomes", columns=("job", "outcome"), rows=rows),))

    given: dict[str, Any] = {"title": f"About {name}", "source": "", "tell": tell}
    given["jobs"] = lambda _: jobs
    return Experiment(name=name, **(given | others))


JCT = Experiment(
    name="jct", title="Job completion time", source="Fig. 8", jobs=plays, tell=tell_jct
)
BROKEN = experiment(
    "broken", Measurement.of(fail, message="no such luck"), Measurement.of(number, value=5)
)
NUMBERS = experiment(
    "numbers", jobs=lambda scale: [Measurement.of(number, value=seed) for seed in scale.seeds]
)

PLANTED = (Part("Good ones", (JCT, NUMBERS)), Part("Bad ones", (BROKEN,)))


def interrupted(folder: Path) -> tuple[Part, ...]:
    """Make a catalogue of three jobs, the last of which waits while ``folder/pipe`` is there."""
    notes = [Measurement.of(note, file=str(folder / "notes"), value=value) for value in (1, 2)]
    last = Measurement.of(wait_while_piped, pipe=str(folder / "pipe"))
    return (Part("One", (experiment("slow", *notes, last),)),)
