import duckdb
import pytest
from hypothesis import reject
from tensolog.catalog.datalog import DatalogError, derive, evaluate, parse
from tensolog.catalog.datalog.language.structures import decode
from tensolog.catalog.datalog.memory.program_plans import database_only


@pytest.fixture
def connection():
    with duckdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def run(connection):
    """Evaluate a program text; gives each relation as a set of tuples."""

    def evaluated(text, inputs=None):
        return sets(text, connection, inputs)

    return evaluated


def checked(text):
    """Parse a random program; one that is none after all is drawn again."""
    try:
        return parse(text)
    except DatalogError as error:
        # A variable that an extreme hands out may be a name that a count keeps to itself.
        if "is bound inside" in error.reason or "is not grounded" in error.reason:
            reject()
        raise


def _plain(program, name, row):
    kinds = program.kinds[name]
    return tuple(
        decode(value, kind, program.structures) if kind in program.structures else value
        for value, kind in zip(row, kinds, strict=False)
    )


def sets(text, connection, inputs=None):
    """Evaluate by DuckDB, and, where a program is one for them, in memory: both must agree."""
    program = parse(text)
    sources = {}
    for index, (name, rows) in enumerate((inputs or {}).items()):
        kinds = program.relations[name].types
        columns = ", ".join(f"c{i} {k}" for i, k in enumerate(kinds))
        connection.execute(f"CREATE OR REPLACE TABLE given{index} ({columns})")
        if rows:
            marks = ", ".join("?" for _ in kinds)
            connection.executemany(f"INSERT INTO given{index} VALUES ({marks})", rows)
        sources[name] = f"given{index}"
    relations = evaluate(program, connection, inputs=sources)
    rows_of = {
        name: {_plain(program, name, row) for row in relations[name].fetchall()}
        for name in relations
    }
    if database_only(program) is None:
        assert {name: set(rows) for name, rows in derive(program, inputs or {}).items()} == rows_of
    return rows_of
