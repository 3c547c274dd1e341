"""What happens when in steps of a collector with ``double_buffered=True``: a picture of recorded events.

torch's profiler gives the times: of the calls of the policy and of the waits on the thread that calls them,
and where the policy is on a GPU, of its kernels and of the copies up and down. The envs of a half are busy
from their submission until the caller, who helps them if they are not done, has their step.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tensordict.nn import TensorDictModule
from torch.profiler import ProfilerActivity, profile, record_function
from torchrl.modules import MLP

import torchrl_pool._collecting.collector as collecting
from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool._bench.document import machine_line
from torchrl_pool._bench.plot import check_can_plot
from torchrl_pool._bench.steppers import one_torch_thread
from torchrl_pool._collecting.rollout import Rollout

_HALVES = ("#1f77b4", "#ff7f0e")
_POLICY, _WAIT, _SUBMITTED = "policy of half ", "wait for half ", "submitted half "


class Span(NamedTuple):
    """Something that takes time, in microseconds since the first step that is drawn."""

    row: str
    half: int
    begin: float
    end: float


class RecordedRollout(Rollout):
    """A rollout that tells the profiler what it does for which half."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        for number, group in enumerate(self._groups):
            group.policy = _Recorded(f"{_POLICY}{number}", group.policy)

    def _begin_step(self, group: Any, step: int) -> None:
        super()._begin_step(group, step)
        with record_function(f"{_SUBMITTED}{self._groups.index(group)}"):
            pass

    def _finish_step(self, group: Any, step: int) -> None:
        with record_function(f"{_WAIT}{self._groups.index(group)}"):
            resets = group.flight.wait()
        self._advance(group, step, resets)


class _Recorded:
    def __init__(self, name: str, call: Any) -> None:
        self._name, self._call = name, call

    def __call__(self, tensordict: Any) -> Any:
        with record_function(self._name):
            return self._call(tensordict)


def record(collector: PoolCollector, num_steps: int) -> list[Span]:
    """The events of so many steps from the middle of a batch."""
    batches = iter(collector)
    for _ in range(3):
        next(batches)
    cuda = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities) as profiled:
        next(batches)
        if cuda:
            torch.cuda.synchronize()
    return spans(list(profiled.events()), num_steps)


def spans(events: Sequence[Any], num_steps: int) -> list[Span]:
    """From the profiler's events to what is drawn."""
    found: list[Span] = []
    submitted: dict[int, float] = {}
    on_host = [event for event in events if event.device_type == torch.autograd.DeviceType.CPU]
    for event in sorted(on_host, key=lambda event: event.time_range.start):
        begin, end = event.time_range.start, event.time_range.end
        for name, row in ((_POLICY, "caller: policy"), (_WAIT, "caller: helps, waits"), (_SUBMITTED, "")):
            if not event.name.startswith(name):
                continue
            half = int(event.name.removeprefix(name))
            if row:
                found.append(Span(row, half, begin, end))
            if name is _SUBMITTED:
                submitted[half] = end
            if name is _WAIT and half in submitted:
                found.append(Span(f"envs of half {half + 1}", half, submitted[half], end))
    calls = [span for span in found if span.row == "caller: policy"]
    for event in events:
        if event.device_type == torch.autograd.DeviceType.CPU or not calls:
            continue
        begin, end = event.time_range.start, event.time_range.end
        row = "GPU: kernels"
        for kind, name in (("HtoD", "GPU: copies up"), ("DtoH", "GPU: copies down")):
            row = name if kind in event.name else row
        # A half's copies and kernels come between the waits before and after the call of its policy.
        nearest = min(calls, key=lambda call: max(call.begin - end, begin - call.end, 0))
        found.append(Span(row, nearest.half, begin, end))
    first = [span.begin for span in calls if span.half == 0]
    middle = max((len(first) - num_steps) // 2, 0)
    since = first[middle]
    until = first[min(middle + num_steps, len(first) - 1)]
    shown = [span for span in found if span.end > since and span.begin < until]
    return [one._replace(begin=max(one.begin - since, 0), end=min(one.end, until) - since) for one in shown]


def draw(recorded: Sequence[Span], title: str, path: Path) -> None:
    """One row for each place where something happens, one colour for each half."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    order = ["caller: policy", "caller: helps, waits", "GPU: copies up", "GPU: kernels", "GPU: copies down"]
    order += ["envs of half 1", "envs of half 2"]
    rows = [row for row in order if any(span.row == row for span in recorded)]
    figure = Figure(figsize=(9, 0.42 * len(rows) + 1.3), dpi=150, layout="constrained")
    axes = figure.subplots()
    for number, row in enumerate(rows):
        for half, colour in enumerate(_HALVES):
            bars = [
                (span.begin, span.end - span.begin)
                for span in recorded
                if span.row == row and span.half == half
            ]
            axes.broken_barh(bars, (number - 0.36, 0.72), facecolors=colour, linewidth=0)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, max(span.end for span in recorded))
    axes.set_xlabel("microseconds", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_title(title, fontsize=8, color="#555555")
    figure.legend(
        [Patch(color=colour) for colour in _HALVES],
        ["half 1", "half 2"],
        loc="outside lower right",
        ncols=2,
        frameon=False,
        fontsize=8,
    )
    figure.savefig(path, format="png")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="HalfCheetah-v5", help="one with continuous actions")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--num-threads", type=int)
    parser.add_argument("--cells", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--steps", type=int, default=4, help="how many are drawn")
    parser.add_argument("--policy-device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--timeline", type=Path, default=Path("timeline.png"), help="the PNG")
    parser.add_argument("--json", type=Path, help="the events that it is drawn from")
    parsed = parser.parse_args()
    check_can_plot()
    one_torch_thread()
    options = {"obs_dtype": torch.float32, "num_threads": parsed.num_threads}
    env = PoolEnv(parsed.task, parsed.num_envs, seed=0, **options)
    size, actions = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    network = MLP(size, actions, num_cells=parsed.cells, activation_class=torch.nn.Tanh)
    network.to(parsed.policy_device)
    collecting.Rollout = RecordedRollout  # type: ignore[misc]
    collector = PoolCollector(
        env,
        TensorDictModule(torch.nn.Sequential(network, torch.nn.Tanh()), ["observation"], ["action"]),
        frames_per_batch=parsed.num_envs * (parsed.steps + 8),
        total_frames=-1,
        double_buffered=True,
        policy_device=parsed.policy_device,
    )
    recorded = record(collector, parsed.steps)
    collector.shutdown()
    setup = f"{parsed.task}, {parsed.num_envs} envs in two halves, {env.num_threads} threads"
    draw(recorded, f"{setup}, the policy on {parsed.policy_device}; {machine_line()}", parsed.timeline)
    if parsed.json is not None:
        parsed.json.write_text(json.dumps([span._asdict() for span in recorded], indent=1) + "\n")


if __name__ == "__main__":
    main()
