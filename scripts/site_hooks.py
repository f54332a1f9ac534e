"""Hooks of mkdocs: the Markdown of the repository, without changes, becomes a site.

README.md is the first page. A file outside of docs/ that a page links to, such as a module or an
example, becomes a page below `repository/`, and so do the files that such a page links to.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
HOME = ROOT / "README.md"

_FENCE = re.compile(r"^```(\w+) (\S.*)$")
_LINK = re.compile(  # or code, which may look like one
    r"(?P<text>\[[^\]]*\])\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)|`+[^`\n]+`+"
)
_LANGUAGES = {".py": "python", ".sql": "sql", ".sh": "sh", ".toml": "toml", ".yml": "yaml"}

_places: dict[str, Path] = {}
"""Where a page of the site comes from, by its name within the site."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List a folder that is named in the navigation, such as `decisions/`, file by file."""
    config.nav = _listed(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    _places.clear()
    _places.update({each.src_uri: DOCS / each.src_uri for each in files if each.src_uri})
    waiting = [HOME, *(path for name, path in _places.items() if name.endswith(".md"))]
    files.append(File.generated(config, "index.md", content=HOME.read_text(encoding="utf-8")))
    _places["index.md"] = HOME
    while waiting:
        for path in _targets(waiting.pop()):
            name = _name(path)
            if name not in _places:
                _places[name] = path
                files.append(File.generated(config, name, content=_content(path)))
                if path.suffix == ".md":
                    waiting.append(path)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let links lead to pages of the site, and name files above the blocks that show them."""
    name = page.file.src_uri
    lines, fenced = [], False
    for line in markdown.splitlines():
        if line.startswith("```"):
            fenced = not fenced
            line = _FENCE.sub(r'```\1 title="\2"', line)
        elif not fenced:
            line = _relinked(line, name)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _relinked(line: str, name: str) -> str:
    """A line of prose whose links lead to pages of the site."""

    def relink(found: re.Match[str]) -> str:
        if found["text"] is None and line.startswith("|"):
            return found[0].replace("\\|", "|")  # no escape is needed in code of a table there
        text, target, anchor = found["text"], found["target"], found["anchor"] or ""
        if target is None or "://" in target:
            return found[0]
        path = (_places[name].parent / target).resolve()
        if not path.exists():
            return found[0]
        place = os.path.relpath(_name(path), Path(name).parent).replace(os.sep, "/")
        return f"{text}({place}{anchor})"

    return _LINK.sub(relink, line)


def _targets(page: Path) -> list[Path]:
    """Files that a page links to, apart from those that are in the site by themselves."""
    found = []
    for match in _LINK.finditer(page.read_text(encoding="utf-8")):
        target = match["target"]
        if target is None or "://" in target:
            continue
        path = (page.parent / target).resolve()
        if path.exists() and path.is_relative_to(ROOT):
            found.append(path)
    return found


def _name(path: Path) -> str:
    """The name of a file within the site."""
    if path == HOME:
        return "index.md"
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    place = f"repository/{path.relative_to(ROOT).as_posix()}"
    return place if path.suffix == ".md" else f"{place}.md"


def _content(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    title = path.relative_to(ROOT).as_posix()
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {title}\n\n"
    if path.is_dir():
        return head + "".join(f"- `{each.name}`\n" for each in sorted(path.iterdir()))
    text = path.read_text(encoding="utf-8").rstrip("\n")
    return f"{head}````{_LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"


def _listed(nav: Any) -> Any:
    if isinstance(nav, list):
        return [_listed(each) for each in nav]
    if isinstance(nav, dict):
        return {title: _listed(each) for title, each in nav.items()}
    if isinstance(nav, str) and nav.endswith("/"):
        pages = sorted(
            (DOCS / nav).glob("*.md"), key=lambda path: (path.stem != "index", path.stem)
        )
        return [path.relative_to(DOCS).as_posix() for path in pages]
    return nav
