"""Operators and functors as DuckDB SQL, with the meaning that Souffle's 64-bit build gives them.

Integers wrap: DuckDB would raise, so they are computed in 128 bits and cut (1.5 ns a value).
What stops Souffle (division by zero, to_number("x")) is NULL here and named as a fault, which the
clause turns into an error when a solution of its whole body meets it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...terms.syntax_tree import Place
from ..analysis.type_inference import FLOAT, NUMBER, SYMBOL, UNSIGNED, Kinds
from ..language.structures import BRANCH, NIL
from ..language.syntax import GIVEN, DatalogError, Functor, Number
from .patterns import FOREIGN, translated_or_none

SQL_TYPE = {NUMBER: "BIGINT", UNSIGNED: "UBIGINT", FLOAT: "DOUBLE", SYMBOL: "VARCHAR"}
STRUCTURE_TYPE = "JSON"
PATTERN_FUNCTION = "dl_pattern"  # writes a pattern for RE2
RANGE_FUNCTION = "dl_range"  # counts in floats, adding up as Souffle does
ORDINAL_FUNCTION = "dl_ord"  # numbers symbols
_HALF = "9223372036854775808::HUGEINT"
_MASK = "18446744073709551615::HUGEINT"
_LARGE = "9223372036854775808.0::DOUBLE"

Fault = Callable[[str, str], None]
Share = Callable[[str], str]


_FAULT = re.compile(r"at (\d+):(\d+) of (.*): ([^:]*)", re.DOTALL)


def fault_text(position: Place, message: str) -> str:
    """Spell what a query raises where a fault is met."""
    return f"at {position.line}:{position.column} of {position.path}: {message}"


def fault_of(text: str) -> DatalogError | None:
    """Read what a query raised; None where it is no fault of the program's."""
    match = _FAULT.search(text)
    if match is None:
        return None
    line, column, path, message = match.groups()
    return DatalogError(path, int(line), int(column), message)


def sql_type(kind: str) -> str:
    """Name the SQL type of a kind; what is none of the four is a structure."""
    return SQL_TYPE.get(kind, STRUCTURE_TYPE)


def signed(huge: str) -> str:
    """Cut a HUGEINT expression to a wrapped BIGINT."""
    return f"(((({huge}) + {_HALF}) & {_MASK}) - {_HALF})::BIGINT"


def unsigned(huge: str) -> str:
    """Cut a HUGEINT expression to a wrapped UBIGINT."""
    return f"(({huge}) & {_MASK})::UBIGINT"


def quote(text: str) -> str:
    """Spell a string literal."""
    return "'" + text.replace("'", "''") + "'"


def constant(value: int | float | str, kind: str) -> str:
    """Spell a constant of a kind."""
    if kind == SYMBOL:
        return quote(str(value))
    if kind not in SQL_TYPE:
        return f"json({quote(str(value))})"
    if kind == FLOAT:
        return f"'{float(value)!r}'::DOUBLE"
    return f"({value})::{SQL_TYPE[kind]}" if value < 0 else f"{value}::{SQL_TYPE[kind]}"  # type: ignore[operator]


def cut(huge: str, kind: str) -> str:
    """Cut a HUGEINT expression to the kind's width."""
    return signed(huge) if kind == NUMBER else unsigned(huge)


def _huge(text: str) -> str:
    return f"({text})::HUGEINT"


def functor_sql(
    node: Functor,
    arguments: list[str],
    kinds: Kinds,
    share: Share,
    fault: Fault,
) -> str:
    """Translate a functor; `share` names an expression used twice, `fault` reports failures."""
    name, kind = node.name, kinds.of(node)
    if name[0] == GIVEN:
        return f'"{functor_function(name[1:])}"({", ".join(arguments)})'
    if name in _CONVERT:
        return _convert(node, arguments[0], kinds, share, fault)
    if name == "neg":
        return f"(-{arguments[0]})" if kind == FLOAT else signed(f"-{_huge(arguments[0])}")
    if name in ("min", "max"):
        return f"{'least' if name == 'min' else 'greatest'}({', '.join(arguments)})"
    if name == "cat" or (name == "+" and kind == SYMBOL):
        return "(" + " || ".join(arguments) + ")"
    if name == "strlen":
        return f"strlen({arguments[0]})"
    if name == "substr":
        return _substring(*(share(a) for a in arguments))
    if name == "bnot":
        return f"(~{arguments[0]})"
    if name == "lnot":
        return f"(({arguments[0]}) = 0)::{SQL_TYPE[kind]}"
    left, right = arguments
    if kind == FLOAT:
        return f"pow({left}, {right})" if name == "^" else f"({left} {name} {right})"
    return _integer(node, left, right, kind, share, fault)


def structure_sql(name: str, fields: Sequence[tuple[str, str]]) -> str:
    """Build a value of a structure from the SQL of its fields and their kinds."""
    if name == NIL:
        return "'null'::JSON"
    parts = [quote(name[1:])] if name[0] == BRANCH else []
    parts += [_float_text(sql) if kind == FLOAT else sql for sql, kind in fields]
    return f"json_array({', '.join(parts)})"


def _float_text(value: str) -> str:
    return f"CASE WHEN isnan({value}) THEN 'nan' ELSE ({value})::VARCHAR END"


def field_sql(value: str, place: int, kind: str) -> str:
    """Take a field out of a structure; NULL where it has no such field."""
    path = quote(f"$[{place}]")
    if kind not in SQL_TYPE:
        return f"json_extract({value}, {path})"
    text = f"json_extract_string({value}, {path})"
    return text if kind == SYMBOL else f"TRY_CAST({text} AS {SQL_TYPE[kind]})"


def shape_sql(name: str, value: str) -> str:
    """Test whether a value is a record, nil, or of a branch."""
    if name[0] == BRANCH:
        return f"json_extract_string({value}, '$[0]') = {quote(name[1:])}"
    return f"{value} {'=' if name == NIL else '<>'} 'null'::JSON"


def _integer(node: Functor, left: str, right: str, kind: str, share: Share, fault: Fault) -> str:
    name = node.name
    if name in ("+", "-"):
        return cut(f"{_huge(left)} {name} {_huge(right)}", kind)
    if name == "*":
        if kind == NUMBER:
            return signed(f"{_huge(left)} * {_huge(right)}")
        product = f"({left})::UHUGEINT * ({right})::UHUGEINT"
        return f"(({product}) & 18446744073709551615::UHUGEINT)::UBIGINT"
    if name in ("/", "%"):
        operator = "//" if name == "/" else "%"
        divisor = node.arguments[1]
        if isinstance(divisor, Number) and divisor.value:
            if divisor.value > 0:
                return f"({left} {operator} {right})"
            return cut(f"{_huge(left)} {operator} {_huge(right)}", kind)
        right = share(right)
        fault(f"{right} = 0", "division by zero")
        return cut(f"{_huge(left)} {operator} nullif({_huge(right)}, 0)", kind)
    if name == "^":
        return _truncate(share(f"pow(({left})::DOUBLE, ({right})::DOUBLE)"), kind)
    if name in ("band", "bor"):
        return f"({left} {'&' if name == 'band' else '|'} {right})"
    if name == "bxor":
        return f"xor({left}, {right})"
    if name in ("bshl", "bshr", "bshru"):
        return _shift(name, left, right, kind)
    left, right = f"(({left}) <> 0)", f"(({right}) <> 0)"
    logical = {
        "land": f"{left} AND {right}",
        "lor": f"{left} OR {right}",
        "lxor": f"{left} <> {right}",
    }
    return f"({logical[name]})::{SQL_TYPE[kind]}"


def _shift(name: str, left: str, right: str, kind: str) -> str:
    # The shift counts modulo 64; negative counts have their low six bits taken too.
    count = f"(({right}) & 63)"
    if name == "bshl":
        return cut(f"{_huge(left)} * (1::HUGEINT << {count}::HUGEINT)", kind)
    if kind == UNSIGNED:
        return f"({left} >> {count})"
    if name == "bshru":
        return signed(f"({unsigned(_huge(left))} >> {count}::UBIGINT)::HUGEINT")
    # Rounding towards minus infinity, as an arithmetic shift does, on the value moved above zero.
    moved = f"({_huge(left)} + {_HALF})"
    lifted = f"(({moved} >> {count}::HUGEINT) - ({_HALF} >> {count}::HUGEINT))"
    return f"{lifted}::BIGINT"


def _truncate(value: str, kind: str) -> str:
    """Convert a shared DOUBLE to an integer as x86-64 does: 2^63 and beyond give the minimum."""
    small = f"{value} >= -{_LARGE} AND {value} < {_LARGE}"
    inside = f"trunc({value})::BIGINT"
    if kind == NUMBER:
        return f"CASE WHEN {small} THEN {inside} ELSE (-9223372036854775808)::BIGINT END"
    return (
        f"CASE WHEN {small} THEN {unsigned(_huge(inside))} "
        f"WHEN {value} >= {_LARGE} AND {value} < 18446744073709551616.0::DOUBLE "
        f"THEN trunc({value})::UBIGINT ELSE 0::UBIGINT END"
    )


def _substring(text: str, start: str, length: str) -> str:
    """Cut bytes, as std::string::substr does; a wrong start gives the empty string."""
    end = f"CASE WHEN {length} < 0 OR {length} > strlen({text}) THEN strlen({text}) "
    end += f"ELSE {start} + {length} END"
    return (
        f"CASE WHEN {start} < 0 OR {start} >= strlen({text}) OR {length} = 0 THEN '' "
        f"WHEN strlen({text}) = length({text}) THEN array_slice({text}, {start} + 1, {end}) "
        f"ELSE decode(array_slice(encode({text}), {start} + 1, {end})) END"
    )


_CONVERT = frozenset({"to_float", "to_number", "to_string", "to_unsigned", "ord"})
_INTEGER_PREFIX = r"^[ \t\n\v\f\r]*([+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+))"
_FLOAT_PREFIX = (
    r"^[ \t\n\v\f\r]*([+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN]))"
)


def _convert(node: Functor, value: str, kinds: Kinds, share: Share, fault: Fault) -> str:
    source, kind = kinds.of(node.arguments[0]), kinds.of(node)
    if node.name == "ord" and source == SYMBOL:
        return f'"{ORDINAL_FUNCTION}"({value})'
    if node.name == "ord" and source not in (NUMBER, UNSIGNED):
        raise DatalogError.at(
            node.position,
            f"ord of a {source} is outside the dialect: it would expose how values are stored",
        )
    if source == kind:
        return value
    if kind == SYMBOL:
        return f"format('{{:.6f}}', {value})" if source == FLOAT else f"({value})::VARCHAR"
    if source == SYMBOL:
        return _from_symbol(node.name, value, kind, share, fault)
    if kind == FLOAT:
        return f"({value})::DOUBLE"
    if source == FLOAT:
        return _truncate(share(value), kind)
    return cut(_huge(value), kind)


def _from_symbol(name: str, value: str, kind: str, share: Share, fault: Fault) -> str:
    """Read a leading number as std::stoll and std::stod do, ignoring what follows it."""
    if kind == FLOAT:
        digits = share(f"regexp_extract({value}, {quote(_FLOAT_PREFIX)}, 1)")
        result = share(f"TRY_CAST({digits} AS DOUBLE)")
    else:
        digits = share(f"regexp_extract({value}, {quote(_INTEGER_PREFIX)}, 1)")
        plain = f"replace(replace({digits}, '-', ''), '+', '')"
        # Before 2.0 a HUGEINT can't be read from hexadecimal or binary digits.
        size = f"coalesce(TRY_CAST({plain} AS UBIGINT)::HUGEINT, TRY_CAST({plain} AS HUGEINT))"
        huge = f"{size} * (CASE WHEN {digits} LIKE '-%' THEN -1 ELSE 1 END)"
        result = share(unsigned(huge) if kind == UNSIGNED else f"TRY_CAST({huge} AS BIGINT)")
    fault(f"{result} IS NULL", f"{name} of a symbol that holds no number")
    return result


_FOREIGN_REASON = "a pattern with what RE2 can't do (look-ahead, back-references, the like)"


def pattern_text(pattern: str, position: Place) -> str | None:
    """Write a constant pattern for RE2; None where it is none, DatalogError where RE2 can't."""
    text = translated_or_none(pattern)
    if text == FOREIGN:
        raise DatalogError.at(position, f"{_FOREIGN_REASON} is outside the dialect")
    return text


def match_sql(pattern: str, text: str, negated: bool, share: Share, fault: Fault) -> str:
    """Match with a pattern that is computed; one that is no valid pattern matches nothing.

    Nor does its negation hold: both are false to Souffle, which warns.
    """
    written = share(f'"{PATTERN_FUNCTION}"({pattern})')
    foreign = f"{written} = {quote(FOREIGN)}"
    fault(foreign, f"{_FOREIGN_REASON} can't be matched")
    test = f"{'NOT ' if negated else ''}regexp_full_match({text}, {written})"
    return f"CASE WHEN {foreign} THEN NULL ELSE coalesce(TRY({test}), FALSE) END"


def functor_function(name: str) -> str:
    """Name the SQL function of a functor that users give."""
    return f"dl_functor_{name}"
