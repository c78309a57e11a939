from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.common.errors import InvalidInputError
from apps.routing.services.experiments import check_experiment, with_records
from workers.simulator.experiments import (
    OURS,
    Experiment,
    ExperimentError,
    Summary,
    list_engines,
    list_traces,
    parse_fleet,
    run,
)

HEADINGS = (
    "policy", "requests", "in SLO", "by class", "goodput/s", "TTFT p50/p90/p99 s", "TPOT p50/p90/p99 ms", "Jain",
    "hit rate", "refused", "USD/1000 in SLO", "USD/workflow", "replicas needed",
)  # fmt: skip


class Command(BaseCommand):
    help = "Plays a trace through scheduling policies on a simulated fleet, side by side."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--trace", required=True,
            help="W1 to W5, the name or path of a trace, or usage:2026-11-28 for that day's usage records",
        )  # fmt: skip
        parser.add_argument("--policy", action="append", help=f"again for each; default {OURS} and least-outstanding")
        parser.add_argument("--fleet", default="4xllama3-8b/h100/tp1", help="replicas x engine; more kinds after a +")
        parser.add_argument("--load", type=float, default=1.0, help="of W1 to W5, relative to their capacity")
        parser.add_argument("--speed", type=float, default=1.0, help="of other traces: times as fast as recorded")
        parser.add_argument("--duration", type=float, help="seconds of the trace; default all of it")
        parser.add_argument("--ttft", type=float, default=2.0, help="SLO of traces without one, in seconds")
        parser.add_argument("--tpot", type=float, default=0.15, help="the same, per output token")
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--in-slo", type=float, default=0.0, help="look for the replicas that reach this share")
        parser.add_argument("--json", type=Path, help="writes the summaries there as well")

    def handle(self, *args: Any, **options: Any) -> None:
        del args
        experiment = _experiment(options)
        _require_folder(options["json"])
        try:
            check_experiment(experiment)
        except InvalidInputError as error:
            raise CommandError(
                f"{error.message}\nTraces: {_names(list_traces())}\nEngines: {_names(list_engines())}"
            ) from error
        self.stdout.write(_row(HEADINGS))
        summaries = []
        for summary in run(with_records(experiment), lambda _, text: self.stderr.write(text)):
            summaries.append(summary)
            self.stdout.write(_row(_cells(summary)))
        if options["json"]:
            options["json"].write_bytes(msgspec.json.format(msgspec.json.encode(summaries), indent=1))


def _require_folder(file: Path | None) -> None:
    """Before an hour of work is lost."""
    if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
        raise CommandError(f"--json cannot be written to {file}: name a file in a folder that is there.")


def _experiment(options: dict[str, Any]) -> Experiment:
    try:
        first, *others = parse_fleet(options["fleet"])
    except ExperimentError as error:
        raise CommandError(str(error)) from error
    return Experiment(
        trace=options["trace"],
        policies=tuple(options["policy"] or (OURS, "least-outstanding")),
        replicas=first.replicas,
        engine=first.engine,
        others=tuple(others),
        load=options["load"],
        speed=options["speed"],
        duration_s=options["duration"],
        seed=options["seed"],
        ttft_slo_s=options["ttft"],
        tpot_slo_s=options["tpot"],
        in_slo_wanted=options["in_slo"],
    )


def _cells(summary: Summary) -> tuple[str, ...]:
    scores, ttft, tpot = summary.scores, summary.ttft_s, summary.tpot_ms
    return (
        summary.policy,
        str(summary.requests),
        f"{scores.in_slo:.3f}",
        " ".join(f"{each.name}:{each.share:.3f}" for each in summary.by_class),
        f"{scores.goodput_per_s:.2f}",
        f"{ttft.p50:.2f}/{ttft.p90:.2f}/{ttft.p99:.2f}",
        f"{tpot.p50:.0f}/{tpot.p90:.0f}/{tpot.p99:.0f}",
        f"{scores.jain:.3f}",
        f"{scores.hit_rate:.3f}",
        f"{scores.refused:.3f}",
        f"{scores.usd_per_1000_in_time:.3f}",
        "–" if summary.usd_per_workflow is None else f"{summary.usd_per_workflow:.4f}",
        "–" if summary.replicas_needed is None else str(summary.replicas_needed),
    )


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _names(names: list[str]) -> str:
    return ", ".join(names) or "none are installed"
