"""The names of the checks that ``check_pool`` and ``check_plugin`` make."""

OF_POOLS = [
    "specs",
    "seeds",
    "independence",
    "placements",
    "infos",
    "auto-reset",
    "limits",
    "masks",
    "states",
    "moved states",
    "ownership",
    "async calls",
    "collectors",
    "pictures",
    "refusals",
    "closing",
    "copies",
]
OF_PLUGINS = ["declarations", "written bytes", "actions outside of their bounds", *OF_POOLS]
