"""Runs benchmarks: python -m benchmarks [--quick] [--out FOLDER] [NAME ...]"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.catalogue import BENCHMARKS
from benchmarks.result import Result, bar_table


def main(benchmarks: Mapping[str, Callable[[bool], Result]], program: str, numbers: str) -> None:
    """`numbers` is the name of the JSON file with all of them."""
    parser = argparse.ArgumentParser(prog=program, description="Measure Penstock.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(benchmarks)}; default: all")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: numbers mean nothing")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="default: %(default)s")
    given = parser.parse_args()
    unknown = set(given.names) - set(benchmarks)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}, but {', '.join(benchmarks)}")
    given.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    results = []
    for name in given.names or benchmarks:
        with console.status(f"{name} …"):
            result = benchmarks[name](given.quick)
            result.write(given.out)
        console.print(f"\n[bold]{result.title}", soft_wrap=True)
        console.print(result.table())
        results.append(result)
    bars = [bar for result in results for bar in result.bars]
    if bars:
        console.print("\n[bold]Bars")
        console.print(bar_table(bars))
    found = {
        "results": {result.name: result.rows for result in results},
        "bars": [asdict(bar) | {"holds": bar.holds} for bar in bars],
    }
    text = json.dumps(found, indent=1, ensure_ascii=False)
    (given.out / f"{numbers}.json").write_text(text, encoding="utf-8")
    console.print(f"numbers and plots: {given.out}")


if __name__ == "__main__":
    main(BENCHMARKS, "python -m benchmarks", "results")
