"""Kernels are compiled into a folder of the test session's own."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSOLOG_KERNELS", str(folder))
        yield folder
