import shutil

import pytest
from tensolog.catalog import Catalog


@pytest.fixture(scope="session")
def new_catalog(tmp_path_factory):
    """A catalog as it is made, to be copied: making one takes a hundred times as long."""
    path = tmp_path_factory.mktemp("new") / "catalog.duckdb"
    Catalog(path).close()
    return path


@pytest.fixture
def path(new_catalog, tmp_path):
    """A catalog's file."""
    return shutil.copyfile(new_catalog, tmp_path / "catalog.duckdb")
