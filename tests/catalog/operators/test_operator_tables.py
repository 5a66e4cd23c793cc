"""The operator tables say what onnx says, and what classes.ops adds."""

import onnx.defs
import pytest
from tensolog.catalog import Catalog, CatalogError
from tensolog.catalog.operators import (
    classifications,
    first_version,
    parse_classes,
    schema_for,
)


def test_every_version_of_every_operator_is_there(catalog):
    rows = catalog.sql("SELECT domain, op_type, since_version FROM operator").fetchall()
    expected = {(s.domain, s.name, s.since_version) for s in all_schemas()}
    assert set(rows) == expected
    assert len(rows) == len(expected)


def all_schemas():
    return onnx.defs.get_all_schemas_with_history()


def arity(schema):
    return schema.min_input, schema.max_input, schema.min_output, schema.max_output


def test_numbers_of_inputs_and_outputs_are_those_of_onnx(catalog):
    rows = catalog.sql(
        "SELECT domain, op_type, since_version, min_inputs, max_inputs, min_outputs, max_outputs, "
        "deprecated FROM operator ORDER BY ALL"
    ).fetchall()
    assert rows == sorted(
        (s.domain, s.name, s.since_version, *arity(s), s.deprecated) for s in all_schemas()
    )


def test_every_operator_of_onnx_itself_has_a_class():
    known = {name for domain, name in classifications() if not domain}
    assert {s.name for s in all_schemas() if not s.domain} == known


def test_what_random_operators_give_is_not_deterministic(catalog):
    rows = catalog.sql("SELECT DISTINCT op_type FROM operator WHERE NOT deterministic").fetchall()
    names = {name for (name,) in rows}
    assert {"RandomNormal", "Bernoulli", "Multinomial", "Dropout"} <= names
    assert not {"Add", "Conv", "MatMul", "Softmax"} & names


def test_defaults_are_values_and_canonical_text(catalog):
    leaky = schema_for("", "LeakyRelu", 17)
    assert leaky.defaults["alpha"] == pytest.approx(0.01)
    texts = {a.name: a.default_text for a in schema_for("ai.onnx", "Conv", 17).attributes}
    assert [a.default_text for a in leaky.attributes] == ["0.01"]
    assert (texts["auto_pad"], texts["group"], texts["pads"]) == ("NOTSET", "1", None)
    ((text,),) = catalog.sql(
        "SELECT default_value FROM operator_attribute "
        "WHERE op_type = 'Gemm' AND name = 'alpha' AND since_version = 13"
    ).fetchall()
    assert text == "1.0"


def test_the_specification_in_force_is_the_newest_up_to_the_operator_set():
    assert schema_for("", "Relu", 12).since_version == 6
    assert schema_for("", "Relu", 13).since_version == 13
    assert schema_for("", "Relu", 12) is schema_for("", "Relu", 12)


def test_operators_that_onnx_does_not_have_are_none():
    assert schema_for("my.domain", "FusedConv", 1) is None
    assert schema_for("", "Mish", 17) is None
    assert first_version("", "Mish") == 18
    assert first_version("", "Nothing") is None


def test_commutativity_starts_with_broadcasting_both_ways():
    assert schema_for("", "Add", 13).commutative
    assert not schema_for("", "Add", 6).commutative
    assert not schema_for("", "Sub", 13).commutative
    assert schema_for("", "Max", 13).commutative


def test_another_release_of_onnx_fills_the_tables_again(tmp_path):
    with Catalog(tmp_path / "c.duckdb") as catalog:
        catalog.sql("SELECT 1")
        catalog.connection.execute("UPDATE operator SET class = 'opaque'")
        catalog.connection.execute("DELETE FROM operator_attribute")
        catalog.connection.execute("UPDATE catalog_property SET value = 'onnx 1.0'")
    with Catalog(tmp_path / "c.duckdb") as catalog:
        rows = catalog.sql("SELECT class FROM operator WHERE op_type = 'MatMul'").fetchall()
        assert set(rows) == {("contraction",)}
        assert catalog.sql("SELECT count(*) > 1000 FROM operator_attribute").fetchall() == [(True,)]


def test_lines_of_classes():
    text = "# why\n\nop Add elementwise commutative from 7  # note\ndomain my\nop Mul opaque\n"
    classes = parse_classes(text)
    assert (classes["", "Add"].kind, classes["", "Add"].commutative_from) == ("elementwise", 7)
    assert (classes["my", "Mul"].kind, classes["my", "Mul"].commutative_from) == ("opaque", None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("op Add", "expected `domain NAME` or `op NAME CLASS`"),
        ("operator Add elementwise", "expected `domain NAME`"),
        ("op Add pointwise", "pointwise is none of"),
        ("op Add elementwise commutes", "expected `commutative from N`"),
        ("op Add elementwise commutative from seven", "expected `commutative from N`"),
        ("op Old opaque", "Old has a line already"),
    ],
)
def test_mistakes_in_classes_name_their_line(line, reason):
    with pytest.raises(CatalogError, match=f"^my.ops:2: .*{reason}"):
        parse_classes(f"op Old opaque\n{line}\n", "my.ops")
