"""A checkpoint that was moved: Spark writes down where the files in it are, as whole paths."""

from __future__ import annotations

from pathlib import Path

_NAME = "place"
_TEXTS = ("sources/*/*", "state/*/_metadata/**/*")  # where Spark names files of the checkpoint


def settle_in(checkpoint: Path, own: Path) -> None:
    """Let Spark find its files where they are now; `own` is Penstock's folder in the checkpoint.
    When it is done half-way, the next run begins again."""
    path = own / _NAME
    before = path.read_text("utf-8") if path.exists() else None
    now = checkpoint.as_uri()
    if before is not None and before != now:
        old, new = (uri.removeprefix("file://").encode() for uri in (before, now))
        for pattern in _TEXTS:
            for text in (checkpoint / "spark").glob(pattern):
                if text.is_file() and not text.name.startswith("."):
                    _replace(text, old + b"/spark", new + b"/spark")
                    _replace(text, old + b"/penstock", new + b"/penstock")
    if before != now:
        written = own / f".{_NAME}"
        written.write_text(now, encoding="utf-8")
        written.replace(path)


def _replace(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    if old not in content:
        return
    written = path.with_name(f".{path.name}.moved")
    written.write_bytes(content.replace(old, new))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's, of what was there
    written.replace(path)
