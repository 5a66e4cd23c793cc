"""A catalog that a stranger made, and queries on it, reach no file and run no code of theirs."""

import duckdb
import pytest
from tensolog.catalog import Catalog, CatalogError
from tensolog.catalog.store import schema_check
from tensolog.catalog.store.queries import query

REACHING = [
    "SELECT content FROM read_text('{secret}')",
    "SELECT content FROM read_blob('{secret}')",
    "FROM read_csv('{secret}')",
    "FROM '{secret}'",
    "FROM read_json('{secret}')",
    "FROM read_parquet('{secret}')",
    "FROM sniff_csv('{secret}')",
    "FROM glob('{folder}/*')",
    "FROM query('SELECT content FROM read_text(''{secret}'')')",
]
LEAVING = [
    "COPY (SELECT 1) TO '{folder}/out'",
    "EXPORT DATABASE '{folder}/out'",
    "ATTACH '{folder}/out' AS other",
    "ATTACH '{folder}/out' AS other; CREATE TABLE other.main.t AS SELECT 1",
    "COPY rule_source FROM '{secret}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET profile_output = '{folder}/out.txt'",
    "PRAGMA enable_profiling = 'json'",
    "SET temp_directory = '{folder}/out'",
    "CALL enable_logging(storage = 'file', storage_path = '{folder}/out')",
]


@pytest.fixture
def secret(tmp_path):
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / "secret.csv").write_text("password\n123456\n")
    return tmp_path / "apart" / "secret.csv"


@pytest.fixture(params=["memory", "to write", "to read"])
def opened(request, path):
    name = ":memory:" if request.param == "memory" else path
    with Catalog(name, read_only=request.param == "to read") as catalog:
        yield catalog


@pytest.mark.parametrize("text", REACHING)
def test_no_query_reads_a_file(text, opened, secret):
    text = text.format(secret=secret, folder=secret.parent)
    with pytest.raises(CatalogError, match="--allow-files") as caught:
        query(opened, text)
    assert "123456" not in str(caught.value)
    with pytest.raises(duckdb.PermissionException):
        opened.sql(text).fetchall()


@pytest.mark.parametrize("text", LEAVING)
def test_writing_stays_within_the_catalog(text, path, secret):
    with Catalog(path) as catalog:
        with pytest.raises(CatalogError, match="--allow-files") as caught:
            query(catalog, text.format(secret=secret, folder=secret.parent), write=True)
        assert "\n" not in str(caught.value)
        assert query(catalog, "SELECT 1 AS a").to_pylist() == [{"a": 1}]
    assert list(secret.parent.iterdir()) == [secret]


def test_who_allows_files_has_them(path, secret):
    with Catalog(path, allow_files=True) as catalog:
        assert query(catalog, f"FROM '{secret}'").to_pylist() == [{"password": 123456}]
        with pytest.raises(CatalogError, match="--write"):
            query(catalog, f"COPY model TO '{secret}'")
        query(catalog, f"COPY (SELECT 1 AS a) TO '{secret}'", write=True)
    assert secret.read_text() == "a\n1\n"


def test_views_and_macros_of_other_names_stay_and_reach_nothing(path, secret):
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE VIEW mine AS SELECT content FROM read_text('{secret}')")
        connection.execute("CREATE VIEW models AS SELECT count(*) AS n FROM model")
        connection.execute(f"CREATE MACRO theirs() AS (SELECT content FROM read_text('{secret}'))")
    for read_only in (True, False):
        with Catalog(path, read_only=read_only) as catalog:
            assert query(catalog, "FROM models").to_pylist() == [{"n": 0}]
            for text in ("FROM mine", "SELECT theirs()"):
                with pytest.raises(CatalogError, match="--allow-files"):
                    query(catalog, text)


KERNEL_TEXTS = ("attributes", "inputs", "outputs")
CHANGES = {
    "a view for a table": (
        "ALTER TABLE model RENAME TO moved; CREATE VIEW model AS FROM moved",
        "model is a view, not a table",
    ),
    "a view for the version": (
        "ALTER TABLE catalog_version RENAME TO moved; CREATE VIEW catalog_version AS FROM moved",
        "catalog_version is a view",
    ),
    "a table less": ("DROP TABLE proof_case", "it has no table proof_case"),
    "a column less": ("ALTER TABLE plan DROP target", "plan has no column target"),
    "a column more": ("ALTER TABLE plan ADD note VARCHAR", "plan has a column note that is none"),
    "another type": (
        "ALTER TABLE dimension ALTER size TYPE VARCHAR",
        "dimension.size is VARCHAR, not BIGINT",
    ),
    "NULL where none may be": (
        "ALTER TABLE rule_source ALTER source DROP NOT NULL",
        "rule_source.source is VARCHAR, not VARCHAR NOT NULL",
    ),
    "a default": (
        "ALTER TABLE dimension ALTER size SET DEFAULT random()",
        r"dimension.size is BIGINT DEFAULT random\(\), not BIGINT",
    ),
    "a generated column": (
        "CREATE OR REPLACE TABLE rule_source (rule_hash VARCHAR NOT NULL, "
        "position INTEGER NOT NULL, source VARCHAR GENERATED ALWAYS AS (rule_hash || 'x'))",
        "rule_source.source is VARCHAR, generated, not VARCHAR NOT NULL",
    ),
    "no key": (
        "CREATE TABLE moved AS FROM kernel; DROP TABLE kernel; ALTER TABLE moved RENAME TO kernel;"
        + "".join(
            f"ALTER TABLE kernel ALTER {name} SET NOT NULL;"
            for name in ("kernel_hash", "domain", "op_type", "opset", *KERNEL_TEXTS)
        ),
        r"the keys of kernel are none, not \(kernel_hash\)",
    ),
    "another order": (
        "CREATE OR REPLACE TABLE script (text VARCHAR NOT NULL, script_hash VARCHAR NOT NULL)",
        "the columns of script are in another order",
    ),
    "a macro for a function": ("CREATE MACRO max(x) AS 1", r"it redefines max\(\)"),
    "a macro for the list of tables": (
        "CREATE MACRO duckdb_tables() AS TABLE SELECT 'model' AS table_name, false AS internal",
        r"it redefines duckdb_tables\(\)",
    ),
    "a trigger": (
        "CREATE TRIGGER mine AFTER INSERT ON model FOR EACH STATEMENT DELETE FROM plan",
        "model has a trigger",
    ),
    "no version": ("DELETE FROM catalog_version", "states no version"),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_tables_that_are_not_those_of_the_schema(change, reason, path):
    with duckdb.connect(str(path)) as connection:
        try:
            connection.execute(change)
        except duckdb.ParserException:
            pytest.skip("this DuckDB has no triggers")
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(CatalogError, match=reason) as caught:
            Catalog(path, read_only=read_only)
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_an_older_catalog_with_a_view_for_a_table(path):
    with duckdb.connect(str(path)) as connection:
        connection.execute("ALTER TABLE proof RENAME TO moved; CREATE VIEW proof AS FROM moved")
        connection.execute("UPDATE catalog_version SET version = 1")
    before = path.read_bytes()
    with pytest.raises(CatalogError, match="proof is a view, not a table"):
        Catalog(path)
    assert path.read_bytes() == before


def test_an_older_catalog_with_a_table_less(path):
    with duckdb.connect(str(path)) as connection:
        connection.execute("DROP TABLE model")
        connection.execute("UPDATE catalog_version SET version = 1")
    before = path.read_bytes()
    with pytest.raises(CatalogError, match=r"can't be opened|has no table model"):
        Catalog(path)
    assert path.read_bytes() == before


def test_the_schema_is_read_as_duckdb_reads_it():
    with Catalog(":memory:") as catalog:
        assert schema_check.stored_tables(catalog.connection) == schema_check.schema_tables()
