import pytest
from tensolog.catalog import Catalog


@pytest.fixture
def path(tmp_path):
    """A catalog's file."""
    path = tmp_path / "catalog.duckdb"
    Catalog(path).close()
    return path
