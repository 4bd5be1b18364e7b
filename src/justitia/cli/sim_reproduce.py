"""``justitia sim reproduce``: the paper's evaluation and our own, from nothing to a report."""

import dataclasses
import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from justitia import __version__
from justitia.cli.options import DEFAULT_CACHE_DIR
from justitia.core.errors import InvalidValueError
from justitia.local.errors import LocalModeError

if TYPE_CHECKING:
    from justitia.sim.reproduce.catalogue import Part
    from justitia.sim.reproduce.chapters import Plan, Report
    from justitia.sim.reproduce.experiment import Job, Scale
    from justitia.sim.reproduce.store import OutcomeStore
    from justitia.sim.reproduce.worker import Failure


def reproduce(
    *,
    is_quick: Annotated[
        bool, typer.Option("--quick", help="one seed, fewer runs, fewer points")
    ] = False,
    names: Annotated[
        list[str] | None, typer.Option("--only", help="an experiment; may be given again")
    ] = None,
    is_list: Annotated[bool, typer.Option("--list", help="list the experiments and end")] = False,
    seeds: Annotated[
        list[int] | None, typer.Option("--seed", min=0, help="may be given again")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="folder of the report")] = Path(
        "reports/evaluation"
    ),
    markdown: Annotated[
        Path | None, typer.Option(help="write the page in Markdown to this file too")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="processes; default: one for each CPU")
    ] = None,
    is_fresh: Annotated[
        bool, typer.Option("--fresh", help="run again what has been run before")
    ] = False,
    cache_dir: Annotated[
        Path,
        typer.Option(
            "--cache-dir", envvar="JUSTITIA_CACHE_DIR", help="where outcomes of jobs are kept"
        ),
    ] = DEFAULT_CACHE_DIR,
) -> None:
    """Run the experiments and write one report: HTML, PNG, CSV and Markdown.

    Ctrl-C keeps what is done; the same command goes on from there. A job is run again when the
    code that it comes from has changed.
    """
    from justitia.sim.reproduce.catalogue import every
    from justitia.sim.reproduce.chapters import plan_jobs
    from justitia.sim.reproduce.store import OutcomeStore

    parts = _choose(names or [])
    scale = _scale(seeds, is_quick=is_quick)
    plans = plan_jobs(every(parts), scale)
    store = OutcomeStore(cache_dir / "outcomes")
    if is_list:
        Console(highlight=False).print(_listed(plans, store))
        return
    _require_libraries()
    failures = _run(plans, store, workers or os.cpu_count() or 1, is_fresh=is_fresh)
    report = _tell(
        parts=parts, plans=plans, scale=scale, store=store, failures=failures, names=names or []
    )
    _write(report, output, markdown)
    _finish(report, failures, output)


def _require_libraries() -> None:
    """Say what is missing before hours of work, not after."""
    try:
        importlib.import_module("justitia.sim.reproduce.files")
    except ModuleNotFoundError as error:
        raise LocalModeError(
            f"{error.name} is not installed; this needs: pip install 'justitia[sim]'"
        ) from None


def _choose(names: Sequence[str]) -> "tuple[Part, ...]":
    from justitia.sim.reproduce import catalogue

    try:
        return catalogue.choose(catalogue.CATALOGUE, names)
    except InvalidValueError as error:
        raise typer.BadParameter(str(error), param_hint="--only") from None


def _scale(seeds: Sequence[int] | None, *, is_quick: bool) -> "Scale":
    from justitia.sim.reproduce.chapters import default_scale

    scale = default_scale(is_quick=is_quick)
    return scale if not seeds else dataclasses.replace(scale, seeds=tuple(dict.fromkeys(seeds)))


def _listed(plans: "Sequence[Plan]", store: "OutcomeStore") -> Table:
    table = Table()
    for name in ("experiment", "paper", "title"):
        table.add_column(name, overflow="fold")
    for name in ("jobs", "done"):
        table.add_column(name, justify="right")
    for plan in plans:
        about = plan.experiment
        num_done = sum(store.has(job) for job in plan.jobs)
        table.add_row(about.name, about.source, about.title, str(len(plan.jobs)), str(num_done))
    return table


def _run(
    plans: "Sequence[Plan]", store: "OutcomeStore", num_workers: int, *, is_fresh: bool
) -> "dict[str, Failure]":
    from justitia.cli.sim_reproduce_progress import JobProgress
    from justitia.sim.reproduce.chapters import distinct
    from justitia.sim.reproduce.runner import run_jobs

    jobs = distinct(plans)
    store.tidy()
    if is_fresh:
        for job in jobs:
            store.forget(job)
    missing = [job for job in jobs if not store.has(job)]
    num_kept = len(jobs) - len(missing)
    try:
        with JobProgress(len(jobs), num_kept) as progress:
            return run_jobs(missing, store, num_workers=num_workers, watcher=progress)
    except KeyboardInterrupt:
        _tell_interrupted(jobs, store)
        raise


def _tell_interrupted(jobs: "Sequence[Job]", store: "OutcomeStore") -> None:
    num_done = sum(store.has(job) for job in jobs)
    typer.echo(
        f"{num_done} of {len(jobs)} jobs are done and kept; the same command goes on from there",
        err=True,
    )


def _tell(
    *,
    parts: "Sequence[Part]",
    plans: "Sequence[Plan]",
    scale: "Scale",
    store: "OutcomeStore",
    failures: "dict[str, Failure]",
    names: Sequence[str],
) -> "Report":
    from justitia.sim.reproduce.chapters import Report, tell
    from justitia.sim.reproduce.files import check_section

    told = {
        plan.experiment.name: tell(plan, scale, store, failures, check_section) for plan in plans
    }
    return Report(
        version=__version__,
        scale=scale,
        names=tuple(names),
        parts=tuple((part.title, tuple(told[e.name] for e in part.experiments)) for part in parts),
    )


def _write(report: "Report", output: Path, markdown: Path | None) -> None:
    from justitia.sim.reproduce.files import write_report

    try:
        write_report(report, output, markdown=markdown)
    except OSError as error:
        raise LocalModeError(
            f"{error.filename}: the report cannot be written ({error.strerror})"
        ) from None


def _finish(report: "Report", failures: "dict[str, Failure]", output: Path) -> None:
    """Say where the report is and what failed; failures end the command with status 1."""
    from justitia.sim.reproduce.files import HTML_NAME

    console = Console(highlight=False)
    for failure in failures.values():
        typer.echo(f"\n{failure.job_name}\n{failure.trace or failure.error}", err=True)
    failed = [chapter for chapter in report.chapters if chapter.error]
    for chapter in failed:
        typer.echo(f"failed: {chapter.experiment.name}: {chapter.error}", err=True)
    num_told = sum(1 for _ in report.chapters) - len(failed)
    console.print(f"{num_told} experiments told, {len(failed)} failed", markup=False)
    console.print(f"report: {(output / HTML_NAME).resolve().as_uri()}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)
