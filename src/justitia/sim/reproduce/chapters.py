"""What a report is made of: every experiment's section, or why there is none."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from justitia.sim.reproduce.experiment import Experiment, Job, Scale, Section
from justitia.sim.reproduce.store import OutcomeStore
from justitia.sim.reproduce.worker import Failure, in_a_line


@dataclass(frozen=True, slots=True)
class Plan:
    """An experiment and the jobs that it needs; ``error`` where it could not say them."""

    experiment: Experiment
    jobs: tuple[Job, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """An experiment and what it told; ``error`` where it failed."""

    experiment: Experiment
    section: Section
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that is shown. ``names``: of the experiments that were asked for; empty: all."""

    version: str
    scale: Scale
    names: tuple[str, ...]
    parts: tuple[tuple[str, tuple[Chapter, ...]], ...]

    @property
    def chapters(self) -> Iterator[Chapter]:
        """Chapters of all parts."""
        return (chapter for _, chapters in self.parts for chapter in chapters)

    @property
    def command(self) -> str:
        """The command that makes this report again, anywhere."""
        return _command(self.names, self.scale)

    def command_of(self, chapter: Chapter) -> str:
        """Return the command that makes one chapter again."""
        return _command((chapter.experiment.name,), self.scale)


def default_scale(*, is_quick: bool) -> Scale:
    """Return the scale of the command without ``--seed``: a quick one has the first seed alone."""
    full = Scale()
    return Scale(seeds=full.seeds[:1], is_quick=True) if is_quick else full


def plan_jobs(experiments: Iterator[Experiment], scale: Scale) -> list[Plan]:
    """Ask experiments for their jobs."""
    plans = []
    for experiment in experiments:
        try:
            plans.append(Plan(experiment, tuple(experiment.jobs(scale))))
        except Exception as error:  # noqa: BLE001 - the other experiments go on
            plans.append(Plan(experiment, error=in_a_line(error)))
    return plans


def distinct(plans: Sequence[Plan]) -> list[Job]:
    """Every job once, in the order in which it is first wanted."""
    return list({job.name: job for plan in plans for job in plan.jobs}.values())


def tell(
    plan: Plan,
    scale: Scale,
    store: OutcomeStore,
    failures: Mapping[str, Failure],
    check: Callable[[Section], None] = lambda _: None,
) -> Chapter:
    """Let an experiment tell what came out; ``check`` raises if its section cannot be shown."""
    failed = [failures[job.name] for job in plan.jobs if job.name in failures]
    if plan.error or failed:
        return Chapter(plan.experiment, Section(), plan.error or _count(failed, plan))
    try:
        section = plan.experiment.tell(scale, {job: store.get(job) for job in plan.jobs})
        check(section)
    except Exception as error:  # noqa: BLE001 - the other experiments go on
        return Chapter(plan.experiment, Section(), in_a_line(error))
    return Chapter(plan.experiment, section)


def _command(names: Sequence[str], scale: Scale) -> str:
    words = ["justitia sim reproduce"]
    words += ["--quick"] if scale.is_quick else []
    words += [f"--only {name}" for name in names]
    if scale != default_scale(is_quick=scale.is_quick):
        words += [f"--seed {seed}" for seed in scale.seeds]
    return " ".join(words)


def _count(failed: Sequence[Failure], plan: Plan) -> str:
    first = failed[0]
    return f"{len(failed)} of {len(plan.jobs)} jobs failed; {first.job_name}: {first.error}"
