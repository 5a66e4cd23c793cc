"""Settings of hypothesis: the same examples in every run, so that a result owes nothing to luck.

    pytest --hypothesis-profile=fresh                        # other examples in each run
    pytest --hypothesis-profile=fresh --hypothesis-seed=7    # those of one seed

What a fresh run finds becomes a test of its own, or an `@example`.
"""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, database=None, print_blob=True)
settings.register_profile("fresh", derandomize=False, print_blob=True)
# Where a test does not say how many examples it takes, and campaigns are sliced.
settings.register_profile("sliced", settings.get_profile("same"), max_examples=25)
settings.load_profile("same")


# Whole models are optimized in these folders to see something else: compiling kernels would take
# most of the time. Folders within them that test what is compiled have it.
WITHOUT_KERNELS = ("models", "optimizer", "tensolog")
COMPILED = ("optimizer/fuse", "optimizer/layouts", "optimizer/native")


@pytest.fixture(autouse=True)
def kernels_where_they_are_tested(request, monkeypatch):
    """Let the target "auto" find no compiler, but for tests that are marked `with_kernels`."""
    folder = request.path.relative_to(Path(__file__).parent).parent.as_posix()
    compiled = folder.startswith(COMPILED) or request.node.get_closest_marker("with_kernels")
    if folder.startswith(WITHOUT_KERNELS) and not compiled:
        from tensolog.optimizer import target

        monkeypatch.setattr(target, "find_compiler", lambda: None)


def pytest_configure(config):
    """Slice campaigns in a run that names nothing; workers are told by the environment."""
    gc.disable()  # until all is collected: it makes objects that stay
    from . import campaigns

    if not hasattr(config, "workerinput"):
        os.environ.pop(campaigns.SLICED, None)
        asked = config.option.keyword or config.option.markexpr
        named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
        if not (asked or named or os.environ.get(campaigns.WHOLE)):
            os.environ[campaigns.SLICED] = "1"
    campaigns.ALL = campaigns.SLICED not in os.environ
    if not campaigns.ALL and not config.getoption("--hypothesis-profile"):
        settings.load_profile("sliced")


def pytest_collection_modifyitems(config, items):
    """Leave of families of many cases a slice."""
    from .campaigns import SLICED, left_out

    if SLICED not in os.environ:
        return
    out = set(left_out(items))
    config.hook.pytest_deselected(items=list(out))
    items[:] = [item for item in items if item not in out]


def pytest_collection_finish():
    """Leave what was collected out of the garbage collector's sight.

    Memory is released before it is measured (`profiles.session.release_memory`), by collections
    that go through all objects: those of thousands of tests took longer than what is tested.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Do so with what a file has left in caches, too."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_unconfigure():
    """Let what was frozen be freed, or libraries take it for leaked."""
    gc.unfreeze()
