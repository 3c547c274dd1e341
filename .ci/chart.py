"""A bar chart as SVG, in one colour scheme: groups of bars, each group on a scale of its own."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

WIDTH, LABELS, BAR, GAP = 520, 150, 13, 12
FONT = "font-family='system-ui, sans-serif'"


@dataclass(frozen=True)
class Scheme:
    text: str
    colors: tuple[str, ...]


SCHEMES = {
    "light": Scheme(text="#24292f", colors=("#3f51b5", "#90a4ae", "#cfd8dc")),
    "dark": Scheme(text="#e6edf3", colors=("#8c9eff", "#78909c", "#455a64")),
}


def bars(groups: dict[str, list[float]], names: list[str], caption: str, scheme: Scheme) -> str:
    """One group for each key, one bar for each of ``names``; transparent background."""
    y = 40
    parts = []
    for i, name in enumerate(names):
        x = 10 + i * 170
        parts.append(f"<rect x='{x}' y='10' width='12' height='12' rx='2' fill='{scheme.colors[i]}'/>")
        parts.append(_text(x + 18, 20, name, scheme, 13))
    for group, values in groups.items():
        parts.append(_text(LABELS - 8, y + BAR * len(values) / 2 + 4, group, scheme, 13, "end"))
        for value, color in zip(values, scheme.colors, strict=True):
            width = (WIDTH - LABELS - 80) * value / max(values)
            parts.append(
                f"<rect x='{LABELS}' y='{y}' width='{width:.1f}' height='{BAR - 2}' rx='2' fill='{color}'/>"
            )
            parts.append(_text(LABELS + width + 6, y + BAR - 3, f"{float(f'{value:.3g}'):,.0f}", scheme, 11))
            y += BAR
        y += GAP
    parts.append(_text(10, y + 6, caption, scheme, 12))
    height = y + 16
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img'>"
    return "\n".join([head, f"<title>{escape(caption)}</title>", *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, scheme: Scheme, size: int, anchor: str = "start") -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' fill='{scheme.text}' "
        f"text-anchor='{anchor}'>{escape(text)}</text>"
    )
