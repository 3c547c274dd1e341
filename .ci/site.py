"""MkDocs hooks: places for pages that the navigation does not name, roles as links, breaks in long code."""

from __future__ import annotations

import html
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files

CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
SIGN = re.compile(r"(?<=[^\W_])[_./]+(?=[^\W_])|[\[(=,](?=\S)")  # in code; a line may end after it
ROLE = re.compile(r":(?:class|func|meth|data|attr|exc|mod):<code>(~?)([^<]+)</code>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Puts the pages that the navigation does not name where it has a star."""
    named = set(_names(config.nav))
    others = sorted(file.src_uri for file in files.documentation_pages() if file.src_uri not in named)
    _spread(config.nav, others)
    return files


def on_page_content(content: str, **_: Any) -> str:
    """Roles such as ``:class:`~torchrl_pool.PoolEnv``` become links if the site describes the name.

    Code in the text may be broken at its signs, so that narrow columns do not break it within words.
    """
    linked = ROLE.sub(_link, content)
    return CODE.sub(lambda code: SIGN.sub(r"\g<0><wbr>", code[0]), linked)


def _names(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [name for entry in entries for name in _names(entry)]


def _spread(nav: Any, others: list[str]) -> None:
    for entry in nav:
        if isinstance(entry, dict):
            for section in entry.values():
                if isinstance(section, list):
                    _spread(section, others)
    if "*" in nav:
        place = nav.index("*")
        nav[place : place + 1] = others


def _link(role: re.Match[str]) -> str:
    short, name = role[1], html.unescape(role[2])
    shown = name.rpartition(".")[2] if short else name
    public = name if name.startswith("torchrl_pool.") else f"torchrl_pool.{name}"
    return f'<autoref identifier="{html.escape(public)}" optional><code>{html.escape(shown)}</code></autoref>'
