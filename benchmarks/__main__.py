"""`python -m benchmarks [NAME...] [--json FILE] [--quick]`"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import benchmarks
from benchmarks.harness import Result, find, load, print_table, write_json


def main(argv: Sequence[str] | None = None, package: ModuleType = benchmarks) -> int:
    known = find(package)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(known)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--quick", action="store_true", help="small sizes: a trial of the code")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there is {', '.join(known)}")

    results: list[Result] = []
    for name in options.names or known:
        measured = load(package, name)(options.quick)
        print_table(measured)
        results += measured
    if options.json:
        write_json(options.json, results, options.quick)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
