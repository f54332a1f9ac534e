"""Runs benchmarks on Spark: python -m benchmarks.spark [--quick] [--out FOLDER] [NAME ...]"""

from __future__ import annotations

from benchmarks.__main__ import main
from benchmarks.spark.catalogue import BENCHMARKS

if __name__ == "__main__":
    main(BENCHMARKS, "python -m benchmarks.spark", "spark")
