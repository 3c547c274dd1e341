"""Calls of envs in flight."""

KINDS = ("step", "step_and_maybe_reset", "reset")


def calls_of(pool, kind):
    """What sends envs to do this, and what receives them."""
    return getattr(pool, f"async_{kind}_send"), getattr(pool, f"async_{kind}_recv")


def sleeper(make_pool, seconds, **kwargs):
    """A pool with a thread for each of its envs, whose steps take so long."""
    options = [{"sleep": s} for s in seconds]
    return make_pool("Fault-v0", len(seconds), env_options=options, num_threads=3, **kwargs)
