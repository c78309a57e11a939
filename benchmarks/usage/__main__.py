"""Usage at scale: records stored per second, and how long pages, reports, files and upkeep of a month take.

python -m benchmarks.usage [--records 200000] [--processes 2] [--days 1] [--together 5] [--directory DIR]
python -m benchmarks.usage --links 4 [--records 1000000] [--days 1]
python -m benchmarks.usage --fill 10000000 [--days 30] [--as-100-million] [--rerate-days 30] [--directory DIR]

The first measures ingest by itself, the second by the whole way in: agents' links and a web process. The third fills
a month with records made by Postgres itself and asks about it; with --as-100-million the sums that the month's page
reads get every row that any number of records leaves.
"""

import argparse

from benchmarks.usage import filling, ingest, links, questions, upkeep
from benchmarks.usage.yard import running_yard


def main() -> None:
    options = _options()
    with running_yard(options.directory, options.days) as yard:
        if options.links:
            links.measure_links(yard, options.load, options.links)
            return
        if not options.fill:
            ingest.measure_ingest(options.load, options.processes)
            return
        filling.fill(options.fill, options.days, options.end_users)
        questions.ask_about(options.days)
        upkeep.keep_up(options.rerate_days, options.days)
        if options.as_100_million:
            filling.fill_up_sums()
            questions.ask_about_page(options.days)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--end-users", type=int, default=50_000)
    parser.add_argument("--together", type=int, default=5, help="batches that come while one is stored")
    parser.add_argument("--links", type=int, default=0)
    parser.add_argument("--fill", type=int, default=0)
    parser.add_argument("--as-100-million", action="store_true")
    parser.add_argument("--rerate-days", type=int, default=1)
    parser.add_argument("--directory", default=None)
    options = parser.parse_args()
    each = options.records // (options.links or options.processes)
    options.load = ingest.Load(each, options.days, options.end_users, options.together)
    return options


if __name__ == "__main__":
    main()
