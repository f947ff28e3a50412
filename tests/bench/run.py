"""Runs the benchmarks: `run.py [NAME[,NAME]…]`, all of them without a name.

A benchmark is a file `bench_NAME.py` beside this one with a function `run()` that yields
`Figure`s. For each figure one line goes to standard output, `name value unit target ok|SHORT`,
everything else to standard error. The exit status is 1 when a figure falls short of its target or
a benchmark fails, 2 when it is not known.
"""

import importlib
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks share helpers with the tests: tests.support, tests.bench

ORDER = ("ingest", "memory", "evaluate", "status", "admin")


def main(arguments: list[str]) -> int:
    known = discover()
    wanted = [name for argument in arguments for name in argument.split(",") if name] or known
    if unknown := [name for name in wanted if name not in known]:
        print(f"No benchmark {', '.join(unknown)}; there is: {' '.join(known)}", file=sys.stderr)
        return 2
    fit = [run(name) for name in known if name in wanted]
    return 0 if all(fit) else 1


def discover() -> list[str]:
    """Return the names of the benchmarks: those of ORDER first, others after them."""
    files = Path(__file__).parent.glob("bench_*.py")
    names = sorted(file.stem.removeprefix("bench_") for file in files)
    return [*(name for name in ORDER if name in names), *(n for n in names if n not in ORDER)]


def run(name: str) -> bool:
    """Run one benchmark and print its figures; did it meet all its targets?"""
    print(f"{name} …", file=sys.stderr)
    met = []
    try:
        for figure in importlib.import_module(f"tests.bench.bench_{name}").run():
            print(figure.line(), flush=True)
            met.append(figure.ok)
    except Exception:  # noqa: BLE001 - the others shall run all the same
        traceback.print_exc()
        print(f"{name} failed - - SHORT", flush=True)
        return False
    return bool(met) and all(met)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
