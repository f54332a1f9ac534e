"""A checkpoint that was moved: Spark writes down where the files in it are, as whole paths."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

_NAME = "place"


def settle_in(checkpoint: Path, own: Path) -> None:
    """Let Spark find its files where they are now; `own` is Penstock's folder in the checkpoint.
    When it is done half-way, the next run begins again."""
    path = own / _NAME
    before = path.read_text("utf-8") if path.exists() else None
    now = str(checkpoint)
    if before == now:
        return
    if before is not None:
        spark = checkpoint / "spark"
        for text in spark.glob("sources/*/*"):  # which portions have been read, as addresses
            _replace(text, quote(before), quote(now))
        for text in spark.glob("state/*/_metadata/**/*"):  # how state is laid out, as paths
            _replace(text, before, now)
    written = own / f".{_NAME}"
    written.write_text(now, encoding="utf-8")
    written.replace(path)


def _replace(path: Path, old: str, new: str) -> None:
    if path.name.startswith(".") or not path.is_file():
        return
    content = path.read_bytes()
    moved = content
    for folder in ("/spark/", "/penstock/"):
        moved = moved.replace((old + folder).encode(), (new + folder).encode())
    if moved == content:
        return
    written = path.with_name(f".{path.name}.moved")
    written.write_bytes(moved)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's, of what was there
    written.replace(path)
