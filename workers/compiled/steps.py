"""mypyc's part of a build, in a process of its own: `python -m workers.compiled.steps LIBRARY SOURCE…`."""

import os
import sys
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

_OPTIMISATION = "2"
# Nobody replaces a function of the library by another of its name, so calls within it need not go by a table, and
# small functions may stand where they are called: a tenth of the gateway's own time. Without it 2 ran as 1 does.
_CALLS = ["-fno-semantic-interposition", "-fno-plt"]
# Each call may fail, so half of what mypyc writes is for errors. Whatever leads to a traceback stands apart, and what a
# request runs through lies so much closer together.
_ERRORS_APART = """
struct _object;
void CPy_AddTraceback(const char *, const char *, int, struct _object *) __attribute__((cold));
void CPy_TypeErrorTraceback(const char *, const char *, int, struct _object *, const char *, struct _object *)
  __attribute__((cold));
void CPy_AttributeError(const char *, const char *, const char *, const char *, int, struct _object *)
  __attribute__((cold));
"""


def main(library: str, sources: list[str]) -> None:
    options = ["--ignore-missing-imports", "--no-incremental", *sources]
    modules = mypycify(options, opt_level=_OPTIMISATION, debug_level="0", group_name="tokenyard")
    declarations = Path("errors_apart.h").resolve()
    declarations.write_text(_ERRORS_APART)
    for module in modules:  # which share one list
        module.extra_compile_args = [*module.extra_compile_args, *_CALLS, "-include", str(declarations)]
    setup(
        name="tokenyard-compiled",
        packages=[],
        ext_modules=modules,
        script_args=["--quiet", "build_ext", "--build-lib", library, "--parallel", str(os.cpu_count() or 1)],
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
