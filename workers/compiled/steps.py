"""mypyc's part of a build, in a process of its own: `python -m workers.compiled.steps LIBRARY SOURCE…`."""

import os
import sys

from mypyc.build import mypycify
from setuptools import setup

_OPTIMISATION = "1"  # 2 and 3 ran no faster here and take twice as long to compile


def main(library: str, sources: list[str]) -> None:
    options = ["--ignore-missing-imports", "--no-incremental", *sources]
    setup(
        name="tokenyard-compiled",
        packages=[],
        ext_modules=mypycify(options, opt_level=_OPTIMISATION, debug_level="0", group_name="tokenyard"),
        script_args=["--quiet", "build_ext", "--build-lib", library, "--parallel", str(os.cpu_count() or 1)],
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
