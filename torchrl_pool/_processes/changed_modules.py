"""Failures in workers of what this process has: programs change modules, which workers import anew."""

from __future__ import annotations

import re
import sys

_MISSING = re.compile(
    r"^(?:ModuleNotFoundError: No module named '(?P<module>[\w.]+)'"
    r"|AttributeError: (?:partially initialized )?module '(?P<owner>[\w.]+)' has no attribute '(?P<name>\w+)'"
    r"|ImportError: cannot import name '(?P<imported>\w+)' from '(?P<source>[\w.]+)')",
    re.MULTILINE,
)


def with_hint(report: str) -> str:
    """The report of a failure in a worker, and what to do where the same would not fail in this process.

    Args:
        report: lines among which is that of the exception.
    """
    missing = _MISSING.search(report)
    if missing is None:
        return report
    module = missing["module"] or missing["owner"] or missing["source"]
    name = missing["name"] or missing["imported"]
    here = sys.modules.get(module)
    # Not hasattr(): modules that load themselves lazily raise what they will.
    if here is None or (name is not None and name not in vars(here)):
        return report
    what = f"module {module!r}" if name is None else f"{name!r} in module {module!r}"
    return (
        f"{report}\n\nThis process has {what}, and the worker process has not: workers import modules anew, "
        "without what the program has changed in them. Make the change in the function that makes the env, "
        "or pass num_workers=0, with which the envs run in this process."
    )
