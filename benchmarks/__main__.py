"""Runs benchmarks: python -m benchmarks [--quick] [--out FOLDER] [NAME ...]"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.catalogue import BENCHMARKS
from benchmarks.result import bar_table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Penstock.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: numbers mean nothing")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="default: %(default)s")
    given = parser.parse_args()
    unknown = set(given.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}, but {', '.join(BENCHMARKS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    results = []
    for name in given.names or BENCHMARKS:
        with console.status(f"{name} …"):
            result = BENCHMARKS[name](given.quick)
            result.write(given.out)
        console.print(f"\n[bold]{result.title}", soft_wrap=True)
        console.print(result.table())
        results.append(result)
    bars = [bar for result in results for bar in result.bars]
    if bars:
        console.print("\n[bold]Bars")
        console.print(bar_table(bars))
    numbers = {
        "results": {result.name: result.rows for result in results},
        "bars": [asdict(bar) | {"holds": bar.holds} for bar in bars],
    }
    text = json.dumps(numbers, indent=1, ensure_ascii=False)
    (given.out / "results.json").write_text(text, encoding="utf-8")
    console.print(f"numbers and plots: {given.out}")


if __name__ == "__main__":
    main()
