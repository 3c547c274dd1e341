"""Whether MuJoCo can draw pictures here."""

from torchrl_pool import PoolEnv


def missing_opengl(task):
    """Why it cannot draw this task; None: it can."""
    env = PoolEnv(task, 1, width=16, height=16)
    env.reset()
    try:
        env.render()
    except NotImplementedError as error:
        return str(error)
    finally:
        env.close()
    return None
