"""In how many groups the envs of a collector are stepped."""

from __future__ import annotations

from torchrl_pool._env.arguments import check_int

# Of each choice: the first batch of a choice is slower, and one batch may be disturbed.
_BATCHES = 3


class DoubleBuffering:
    """As many groups as asked for, or one or two, whichever collects faster.

    Args:
        asked: ``double_buffered`` of a collector: False or True for one or two groups, their number, or
            ``"auto"``.

    Examples:
        >>> buffering = DoubleBuffering("auto")
        >>> for seconds in (9.0, 9.0, 3.0, 2.0, 3.0, 2.0):  # one group and two, in turn
        ...     buffering.note(seconds)
        >>> buffering.number, buffering.is_decided
        (2, True)
    """

    def __init__(self, asked: bool | int | str) -> None:
        self._seconds: dict[int, list[float]] = {}
        if asked == "auto":
            self.number = 1
            self._seconds = {1: [], 2: []}
        elif isinstance(asked, str):
            raise ValueError(f"double_buffered: expected a bool, a number of groups or 'auto', got {asked!r}")
        elif isinstance(asked, bool):
            self.number = 2 if asked else 1
        else:
            self.number = check_int("double_buffered", asked, minimum=1)

    @property
    def is_decided(self) -> bool:
        return not self._seconds

    def decide(self, number: int) -> None:
        self.number, self._seconds = number, {}

    def note(self, seconds: float) -> None:
        """Takes note of how long a batch has taken; the next one may be collected in another number."""
        if self.is_decided:
            return
        self._seconds[self.number].append(seconds)
        if all(len(taken) == _BATCHES for taken in self._seconds.values()):
            self.decide(min(self._seconds, key=lambda number: min(self._seconds[number][1:])))
        else:
            self.number = 3 - self.number
