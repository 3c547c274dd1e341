"""Charts, drawn from the JSON of what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# One look for each contender in every chart: colour, line, width.
_STYLES: dict[str, tuple[str, str, float]] = {
    "torchrl_pool": ("#d62728", "-", 2.6),
    "torchrl_pool-async": ("#d62728", ":", 2.0),
    "raw": ("#7f7f7f", "--", 1.6),
    "simulator": ("#bbbbbb", ":", 1.6),
    "envpool": ("#1f77b4", "-", 1.6),
    "envpool-async": ("#1f77b4", ":", 1.6),
    "ale": ("#9467bd", "-", 1.6),
    "gymnasium": ("#2ca02c", "-", 1.6),
    "gymnasium-tensors": ("#2ca02c", "--", 1.6),
    "gymnasium-async": ("#2ca02c", ":", 1.6),
    "torchrl": ("#ff7f0e", "-", 1.6),
}
_LABELS = {
    "raw": "the bare C++ envs",
    "simulator": "mj_step / ALE act alone",
    "envpool": "EnvPool",
    "envpool-async": "EnvPool, async",
    "torchrl_pool-async": "torchrl_pool, async",
    "ale": "AtariVectorEnv",
    "gymnasium": "Gymnasium, for-loop",
    "gymnasium-tensors": "Gymnasium, tensors in and out",
    "gymnasium-async": "Gymnasium, subprocesses",
    "torchrl": "TorchRL ParallelEnv",
}


def check_can_plot() -> None:
    """Raises ImportError where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise ImportError("--plot needs matplotlib: pip install 'torchrl_pool[bench]'", name="matplotlib")


def plot_throughput(document: Mapping[str, Any], path: Path) -> None:
    """Steps per second over the number of envs: one panel for each task and number of threads.

    Args:
        document: what :func:`~torchrl_pool._bench.document.document` makes of cells.
        path: the PNG.
    """
    from matplotlib.figure import Figure

    panels: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for cell in document["results"]:
        panels.setdefault((cell["task"], cell["num_threads"]), []).append(cell)
    one_number_of_threads = len({threads for _, threads in panels}) == 1
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(max(6.5, 3.6 * columns), 2.9 * rows + 1.1), dpi=150, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    handles: dict[str, Any] = {}
    for axes, ((task, threads), cells) in zip(grid.flat, panels.items(), strict=False):
        handles.update(_draw_panel(axes, sorted(cells, key=lambda cell: int(cell["num_envs"]))))
        axes.set_title(task if one_number_of_threads else f"{task}, {_count_threads([threads])}", fontsize=10)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("steps per second")
    for axes in grid[-1]:
        axes.set_xlabel("number of envs")
    shown = [name for name in _STYLES if name in handles]
    figure.legend(
        [handles[name] for name in shown],
        [_LABELS.get(name, name) for name in shown],
        loc="outside lower center",
        ncols=columns + 1,
        frameon=False,
        fontsize=9,
    )
    figure.suptitle(_caption(document), fontsize=9, color="#555555")
    figure.savefig(path, format="png")


def _draw_panel(axes: Any, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    handles = {}
    for name in _STYLES:
        points = [cell for cell in cells if name in cell["seconds_per_step"]]
        if not points:
            continue
        envs = [cell["num_envs"] for cell in points]
        rates = [cell["steps_per_second"][name] for cell in points]
        colour, line, width = _STYLES[name]
        (handles[name],) = axes.plot(
            envs, rates, color=colour, linestyle=line, linewidth=width, marker="o", markersize=1.7 * width
        )
    numbers = sorted({cell["num_envs"] for cell in cells})
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, labels=[f"{number:,}" for number in numbers])
    axes.set_xticks([2**i for i in range(numbers[-1].bit_length()) if 2**i > numbers[0]], minor=True)
    axes.xaxis.set_minor_formatter("")
    axes.set_yscale("log")
    _label_rates(axes)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return handles


def _label_rates(axes: Any) -> None:
    """Labels on a log axis: at powers of ten, and between them where fewer than three are in sight."""
    from matplotlib.ticker import EngFormatter, NullFormatter

    low, high = axes.get_ylim()
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    # Leading digits of the numbers to show, ever finer.
    digits = [[1.0], [1.0, 2.0, 5.0], *(_digits(step) for step in (1, 0.5, 0.1, 0.05, 0.01))]
    ticks = [[d * 10**e for e in decades for d in level if low <= d * 10**e <= high] for level in digits]
    labelled = next((level for level, shown in enumerate(ticks[:-1]) if len(shown) >= 3), len(ticks) - 2)
    axes.set_yticks(ticks[labelled])
    axes.set_yticks(ticks[max(2, labelled + 1)], minor=True)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))  # 20k, 5M
    axes.yaxis.set_minor_formatter(NullFormatter())


def _digits(step: float) -> list[float]:
    """From 1 to below 10."""
    return [round(1 + i * step, 2) for i in range(round(9 / step))]


def _caption(document: Mapping[str, Any]) -> str:
    threads = sorted({cell["num_threads"] for cell in document["results"]})
    return f"random actions, {_count_threads(threads)}\n{origin(document)}"


def _count_threads(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)}{' and ' * bool(most)}{last} thread{'s' * (list(numbers) != [1])}"


def origin(document: Mapping[str, Any]) -> str:
    """Where figures come from: the machine, the script, the day."""
    machine = document["machine"]
    return (
        f"{machine['processor']}, {machine['usable_cpus']} processors; "
        f"{document['script']}, {document['date'][:10]}"
    )


def plot_shares(document: Mapping[str, Any], path: Path) -> None:
    """Where the time of an iteration goes: one bar for each way to collect, one colour for each part."""
    from matplotlib.figure import Figure

    results = document["results"]
    names = list(results["seconds"])[::-1]
    figure = Figure(figsize=(7.5, 0.6 * len(names) + 1.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    colours = {"env step": "#d62728", "inference": "#1f77b4", "training": "#2ca02c", "other": "#bbbbbb"}
    left = [0.0] * len(names)
    for part, colour in colours.items():
        widths = [results["seconds"][name][part] * 1e3 for name in names]
        axes.barh(names, widths, left=left, color=colour, label=part, height=0.6)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_xlabel(f"ms for {results['frames']} frames")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=len(colours), frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9)
    title = f"One PPO iteration, {results['task']}, {results['num_envs']} envs\n{origin(document)}"
    figure.suptitle(title, fontsize=9, color="#555555")
    figure.savefig(path, format="png")
