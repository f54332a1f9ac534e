"""A program that is submitted to a standalone cluster, with Penstock in an archive beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import penstock
from tests.spark.processes import cluster

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
PROGRAM = """
import sys

from pyspark.sql import SparkSession

import penstock as ps

spark = SparkSession.builder.getOrCreate()
db = ps.connect(spark, buckets=2)
db.sql("CREATE STREAM s (k STRING, t INT) FROM FILES 'data/*.csv' PROGRESS ON t DELAY 5 PER FILE")
query = db.sql("SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k")
query.start("counts.csv", checkpoint="kept", final=True).wait()


def where(batches):
    import pyarrow as pa

    import penstock

    for batch in batches:
        yield pa.RecordBatch.from_pydict({"place": [penstock.__file__] * batch.num_rows})


places = spark.range(4).mapInArrow(where, "place string").distinct().collect()
print("driver", ps.__file__)
print(*(f"executor {each.place}" for each in places), sep="\\n")
"""


@pytest.mark.slow
def test_penstock_in_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "penstock.zip"
    package = Path(penstock.__file__).parent
    shutil.make_archive(str(archive.with_suffix("")), "zip", package.parent, package.name)
    (tmp_path / "data").mkdir()
    for name, times in (("a", (1, 2, 13)), ("b", (4, 25))):
        lines = "".join(f"{name},{t}\n" for t in times)
        (tmp_path / "data" / f"{name}.csv").write_text(f"k,t\n{lines}")
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with cluster(tmp_path / "cluster") as started:
        master = ["--master", started.master, "--executor-memory", "512m"]
        done = subprocess.run(
            [SUBMIT, *master, "--py-files", archive, "program.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert sorted((tmp_path / "counts.csv").read_text().splitlines()) == [
        "0,10,a,2",
        "0,10,b,1",
        "10,20,a,1",
        "20,30,b,1",
        "window_start,window_end,k,n",
    ]
    places = [line.split() for line in done.stdout.splitlines() if "penstock" in line]
    assert {who for who, _ in places} == {"driver", "executor"}
    assert all("penstock.zip" in place for _, place in places)
