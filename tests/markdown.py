"""The code in a document, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path


def code_blocks(document: Path, language: str) -> list[str]:
    """The blocks fenced with three backticks and the name of their language, in order."""
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
