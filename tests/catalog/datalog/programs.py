"""Random programs: safe, stratified and terminating by construction."""

import re

from hypothesis import strategies as st

NUMBERS = [-3, -2, -1, 0, 1, 2, 3, 5, 63, 9223372036854775807, -9223372036854775808]
STRINGS = ["", "a", "b", "ab", "Ab", "aba", "12", "~", "a'b"]
BASE = {"n": "n", "e": "nn", "s": "ns", "w": "nnn"}
KIND = {"n": "number", "s": "symbol"}
VARIABLES = {"n": ["x", "y", "z", "v"], "s": ["s", "t"]}


def spell(value):
    return '"' + value + '"' if isinstance(value, str) else str(value)


def values(kind):
    if kind == "s":
        return st.sampled_from(STRINGS)
    return st.one_of(st.integers(-2, 4), st.integers(0, 3), st.sampled_from(NUMBERS))


@st.composite
def expressions(draw, kind, bound, depth=2, aggregates=(), guarded=False):
    """An expression over bound variables; `guarded` keeps its values in a finite set."""
    names = bound[kind]
    simple = [st.just(n) for n in names] or [values(kind).map(spell)]
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.one_of(*simple, values(kind).map(spell)))
    inner = expressions(kind, bound, depth - 1, aggregates, guarded)
    number = expressions("n", bound, depth - 1, aggregates, guarded)
    symbol = expressions("s", bound, depth - 1, aggregates, guarded)
    if guarded:
        if kind == "n":
            return f"(({draw(inner)}) band 7)"
        return draw(st.one_of(*simple))
    if aggregates and kind == "n" and draw(st.integers(0, 3)) == 0:
        return draw(aggregate(bound, aggregates))
    if kind == "s":
        choice = draw(st.integers(0, 3))
        if choice == 0:
            return f"cat({draw(inner)}, {draw(inner)})"
        if choice == 1:
            return f"to_string({draw(number)})"
        if choice == 2:
            return f"substr({draw(inner)}, {draw(st.integers(-1, 3))}, {draw(st.integers(0, 3))})"
        return f"{draw(st.sampled_from(['min', 'max']))}({draw(inner)}, {draw(inner)})"
    choice = draw(st.integers(0, 8))
    if choice <= 2:
        operator = draw(st.sampled_from(["+", "-", "*"]))
        return f"({draw(inner)} {operator} {draw(inner)})"
    if choice == 3:
        operator = draw(st.sampled_from(["/", "%"]))
        return f"({draw(inner)} {operator} {draw(st.sampled_from([-3, -1, 1, 2, 5]))})"
    if choice == 4:
        words = ["band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor"]
        return f"({draw(inner)} {draw(st.sampled_from(words))} {draw(inner)})"
    if choice == 5:
        return f"({draw(st.sampled_from(['-', 'bnot ', 'lnot ']))}({draw(inner)}))"
    if choice == 6:
        return f"{draw(st.sampled_from(['min', 'max']))}({draw(inner)}, {draw(inner)})"
    if choice == 7:
        return f"strlen({draw(symbol)})"
    return f"(({draw(inner)}) ^ {draw(st.integers(0, 3))})"


@st.composite
def atom(draw, name, kinds, bound, fresh=True):
    """An atom; extends `bound` with the variables that it binds."""
    arguments = []
    for kind in kinds:
        choice = draw(st.integers(0, 9))
        if choice == 0:
            arguments.append(spell(draw(values(kind))))
        elif choice <= 2:
            arguments.append("_")
        elif fresh:
            arguments.append(draw(st.sampled_from(VARIABLES[kind])))
        else:
            arguments.append(draw(st.sampled_from(bound[kind])) if bound[kind] else "_")
    if fresh:
        for argument, kind in zip(arguments, kinds, strict=True):
            if argument in VARIABLES[kind] and argument not in bound[kind]:
                bound[kind].append(argument)
    return f"{name}({', '.join(arguments)})"


@st.composite
def aggregate(draw, bound, relations):
    """An aggregate whose body reads lower relations, correlated or not."""
    inner = {k: list(v) for k, v in bound.items()}
    body = []
    for _ in range(draw(st.integers(1, 2))):
        name, kinds = draw(st.sampled_from(relations))
        body.append(draw(atom(name, kinds, inner)))
    if draw(st.booleans()) and inner["n"]:
        body.append(draw(constraint(inner)))
    word = draw(st.sampled_from(["count", "sum", "min", "max"]))
    target = ""
    if word != "count":
        numeric = [n for n in inner["n"] if any(f"({n}" in b or f" {n}" in b for b in body)]
        target = draw(st.sampled_from(numeric)) if numeric else "1"
        if draw(st.integers(0, 3)) == 0:
            target = f"{target} + 1"
    return f"{word} {target} : {{ {', '.join(body)} }}"


@st.composite
def witness(draw, bound, relations):
    """A minimum or maximum, perhaps of nested ones, that hands out variables into `bound`."""
    value = next(v for v in VARIABLES["n"] if v not in bound["n"])
    inner = {"n": [n for n in bound["n"] if draw(st.booleans())], "s": list(bound["s"])}
    before = {k: set(v) for k, v in bound.items()}
    body = []
    for _ in range(draw(st.integers(1, 2))):
        name, kinds = draw(st.sampled_from(relations))
        body.append(draw(atom(name, kinds, inner)).replace(value, "_"))
    inner["n"] = [n for n in inner["n"] if n != value]
    numeric = [n for n in inner["n"] if any(re.search(rf"\b{n}\b", b) for b in body)]
    target = draw(st.sampled_from(numeric)) if numeric else "1"
    if draw(st.booleans()):
        name, kinds = draw(st.sampled_from([r for r in relations if "n" in r[1]]))
        arguments = [draw(st.sampled_from([*inner[k], "_"])) for k in kinds]
        place = draw(st.sampled_from([i for i, k in enumerate(kinds) if k == "n"]))
        arguments[place] = "u"
        word = draw(st.sampled_from(["min", "max", "sum"]))
        body.append(f"m = {word} u : {{ {name}({', '.join(arguments)}) }}")
        target = "m"
    if draw(st.booleans()):
        target = f"{target} + {draw(st.sampled_from([*numeric, '1']))}"
    for kind, names in inner.items():
        for n in names:
            if n not in before[kind] and any(re.search(rf"\b{n}\b", b) for b in body[:2]):
                bound[kind].append(n)
    bound["n"].append(value)
    return f"{value} = {draw(st.sampled_from(['min', 'max']))} {target} : {{ {', '.join(body)} }}"


@st.composite
def constraint(draw, bound, aggregates=()):
    kind = "s" if bound["s"] and draw(st.integers(0, 3)) == 0 else "n"
    left = draw(expressions(kind, bound, 1))
    right = draw(expressions(kind, bound, 1, aggregates))
    if kind == "s" and draw(st.booleans()):
        return f"{draw(st.sampled_from(['', '!']))}contains({left}, {right})"
    return f"{left} {draw(st.sampled_from(['=', '!=', '<', '<=', '>', '>=']))} {right}"


@st.composite
def rule(draw, name, kinds, positive, lower, recursive, also=()):
    bound = {"n": [], "s": []}
    body = []
    loops = False
    for _ in range(draw(st.integers(1, 3))):
        other, other_kinds = draw(st.sampled_from(positive))
        loops = loops or other in recursive
        body.append(draw(atom(other, other_kinds, bound)))
    aggregates = [] if loops else lower
    for _ in range(draw(st.integers(0, 2))):
        choice = draw(st.integers(0, 4))
        if choice <= 1:
            body.append(draw(constraint(bound, lower)))
        elif choice == 2:
            other, other_kinds = draw(st.sampled_from(lower))
            body.append("!" + draw(atom(other, other_kinds, bound, fresh=False)))
        elif choice == 3 and not loops:
            fresh = [v for v in VARIABLES["n"] if v not in bound["n"]]
            if fresh:
                value = draw(expressions("n", bound, 2, aggregates))
                if not re.search(rf"\b{fresh[0]}\b", value):
                    body.append(f"{fresh[0]} = {value}")
                    bound["n"].append(fresh[0])
        elif bound["n"]:
            left, right = draw(constraint(bound)), draw(constraint(bound))
            body.append(f"({left} ; {right})")
    if not loops and len(bound["n"]) < len(VARIABLES["n"]) and draw(st.integers(0, 2)) == 0:
        body.append(draw(witness(bound, lower)))
    order = draw(st.permutations(body))
    heads = []
    for other, other_kinds in [(name, kinds), *also]:
        parts = [draw(expressions(k, bound, 1, aggregates, guarded=loops)) for k in other_kinds]
        heads.append(f"{other}({', '.join(parts)})")
    return f"{', '.join(heads)} :- {', '.join(order)}."


@st.composite
def least(draw, name):
    """A closure that keeps, by subsumption, the least costs; costs grow and are capped."""
    general = draw(st.booleans())  # of two costs at once, which no keyed query expresses
    costs = ["c", "d"] if general else ["c"]
    grown = ", ".join(f"min({c} + {draw(st.integers(0, 3))}, 12)" for c in costs)
    ones = ", ".join(str(draw(st.integers(0, 4))) for _ in costs)
    columns = ", ".join(f"{c}:number" for c in ["x", *costs])
    lost, won = ", ".join(f"{c}1" for c in costs), ", ".join(f"{c}2" for c in costs)
    word = draw(st.sampled_from(["<", "<="]))
    tests = ", ".join(f"{c}2 <= {c}1" for c in costs) if general else f"c2 {word} c1"
    return [
        f".decl {name}({columns}) btree_delete",
        f"{name}(x, {ones}) :- n(x).",
        f"{name}(y, {grown}) :- {name}(x, {', '.join(costs)}), e(x, y).",
        f"{name}(x, {lost}) <= {name}(x, {won}) :- {tests}.",
    ]


@st.composite
def overtaken(draw, name):
    """A subsumption that begins to hold when the recursion has found something else."""
    first, second, third = (draw(st.integers(0, 4)) for _ in range(3))
    word = draw(st.sampled_from(["<", ">"]))
    return [
        f".decl {name}(x:number, y:number) btree_delete",
        f".decl {name}r(x:number) .decl {name}t(x:number)",
        f"{name}(x, {first}) :- n(x).",
        f"{name}(y, {second}) :- {name}r(x), e(x, y).",
        f"{name}(y, {third}) :- {name}r(x), e(x, y), !n(y).",
        f"{name}r(x) :- {name}(x, _).",
        f"{name}t({draw(st.sampled_from('xy'))}) :- {name}(x, _), e(x, y).",
        f"{name}(x, c) <= {name}(x, d) :- d {word} c, {name}t(x).",
    ]


@st.composite
def programs(draw, subsumption=True):
    lines = []
    for name, kinds in BASE.items():
        columns = ", ".join(f"c{i}:{KIND[k]}" for i, k in enumerate(kinds))
        lines.append(f".decl {name}({columns})")
        for _ in range(draw(st.integers(0, 6))):
            lines.append(f"{name}({', '.join(spell(draw(values(k))) for k in kinds)}).")
    lower = list(BASE.items())
    for group in range(draw(st.integers(1, 3))):
        members = []
        for index in range(draw(st.integers(1, 2))):
            kinds = "".join(draw(st.lists(st.sampled_from("nnns"), min_size=1, max_size=3)))
            members.append((f"d{group}{index}", kinds))
        for name, kinds in members:
            columns = ", ".join(f"c{i}:{KIND[k]}" for i, k in enumerate(kinds))
            lines.append(f".decl {name}({columns})")
        recursive = {name for name, _ in members}
        for name, kinds in members:
            lines.append(draw(rule(name, kinds, lower, lower, set())))
            for _ in range(draw(st.integers(0, 2))):
                also = members[1:] if draw(st.integers(0, 3)) == 0 and name == members[0][0] else []
                lines.append(draw(rule(name, kinds, lower + members, lower, recursive, also)))
        lower = lower + members
        if subsumption and draw(st.integers(0, 2)) == 0:
            closure = draw(least(f"m{group}"))
            lines.extend(closure)
            lower = [*lower, (f"m{group}", "n" * (closure[0].count("number")))]
        if subsumption and draw(st.integers(0, 3)) == 0:
            lines.extend(draw(overtaken(f"o{group}")))
            lower = [*lower, (f"o{group}", "nn")]
        if draw(st.integers(0, 4)) == 0:
            lines.append(f".decl q{group}(x:number, y:number) eqrel")
            lines.append(draw(rule(f"q{group}", "nn", lower, lower, set())))
            if draw(st.booleans()):
                readable = [("e", "nn"), (f"q{group}", "nn")]
                lines.append(draw(rule(f"q{group}", "nn", readable, lower, {f"q{group}"})))
            lower = [*lower, (f"q{group}", "nn")]
    return "\n".join(lines)


# -- records and algebraic types

STRUCTURES = """.type P = [a:number, s:symbol]
.type L = [head:number, tail:L]
.type T = Leaf {x:number} | Fork {left:T, right:T} | Named {s:symbol, l:L} | None_ {}
.type F = [f:float, u:unsigned, p:P]"""
FIELDS = {"P": ["ns"], "L": ["nL"], "T": ["n", "TT", "sL", ""], "F": ["fuP"]}
BUILDERS = {"P": ["["], "L": ["["], "T": ["$Leaf(", "$Fork(", "$Named(", "$None_("], "F": ["["]}
TYPES = {"n": "number", "s": "symbol", "f": "float", "u": "unsigned", **{k: k for k in FIELDS}}
SCALARS = {
    "n": st.sampled_from(["-1", "0", "1", "2", "9223372036854775807"]),
    "s": st.sampled_from(['""', '"a"', '"b"', r'"a\\b"', '"]"', r'"\""', '"é, (1"', r'"\n"']),
    "f": st.sampled_from(["0.5", "1", "-2.25", "1000000.0 * 1000000000000000.0", "1.0 / 3.0"]),
    "u": st.sampled_from(["0", "3", "18446744073709551615"]),
}


@st.composite
def built(draw, kind, leaves, depth=3):
    """An expression or pattern of a kind: its `leaves` are variables, constants or underscores."""
    if kind in SCALARS or depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(leaves(kind))
    if kind == "L" and draw(st.integers(0, 3)) == 0:
        return "nil"
    index = draw(st.integers(0, len(FIELDS[kind]) - 1))
    parts = ", ".join(draw(built(k, leaves, depth - 1)) for k in FIELDS[kind][index])
    begin = BUILDERS[kind][index]
    return f"{begin}{parts}{']' if begin == '[' else ')'}"


def constants(kind):
    """Leaves that are constants: the smallest value of a structure."""
    small = {"P": '[0, "p"]', "L": "nil", "T": "$None_()", "F": '[0.0, 1, [2, "q"]]'}
    return SCALARS[kind] if kind in SCALARS else st.just(small[kind])


@st.composite
def structured_programs(draw, columns="nsfuPLTF"):
    """Relations over structures: facts, rules that build, a recursion that takes apart."""
    lines = [STRUCTURES]
    relations = []

    def declare(name):
        kinds = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3))
        lines.append(f".decl {name}({', '.join(f'c{i}:{TYPES[k]}' for i, k in enumerate(kinds))})")
        return name, kinds

    def pattern(name, kinds, bound):
        def leaves(kind):
            fresh = [f"v{kind}{i}" for i in range(2)]
            return st.one_of(st.sampled_from([*fresh, "_"]), st.just(fresh[0]), constants(kind))

        text = ", ".join(draw(built(k, leaves, 2)) for k in kinds)
        for kind in TYPES:
            names = re.findall(rf"\bv{kind}[01]\b", re.sub(r'"(?:\\.|[^"\\])*"', "", text))
            bound.setdefault(kind, set()).update(names)
        return f"{name}({text})"

    def values(bound):
        def leaves(kind):
            names = sorted(bound.get(kind, ()))
            return st.sampled_from(names) if names else constants(kind)

        return leaves

    for index in range(draw(st.integers(2, 3))):
        name, kinds = declare(f"a{index}")
        for _ in range(draw(st.integers(1, 5))):
            lines.append(f"{name}({', '.join(draw(built(k, constants)) for k in kinds)}).")
        relations.append((name, kinds))
    for index in range(draw(st.integers(1, 3))):
        name, kinds = declare(f"b{index}")
        for _ in range(draw(st.integers(1, 2))):
            bound = {}
            body = [pattern(*draw(st.sampled_from(relations)), bound)]
            if draw(st.booleans()):
                body.append(pattern(*draw(st.sampled_from(relations)), bound))
            if draw(st.integers(0, 2)) == 0:
                other, other_kinds = draw(st.sampled_from(relations))
                parts = (draw(built(k, values(bound), 1)) for k in other_kinds)
                body.append(f"!{other}({', '.join(parts)})")
            names = [(k, n) for k, ns in bound.items() for n in sorted(ns) if k in FIELDS]
            if names:
                kind, variable = draw(st.sampled_from(names))
                choice = draw(st.integers(0, 3))
                if choice == 0:
                    body.append(f"{variable} != {draw(built(kind, values(bound), 2))}")
                elif choice == 1:
                    index_ = draw(st.integers(0, len(FIELDS[kind]) - 1))
                    begin = BUILDERS[kind][index_]
                    fresh = [f"v{k}1" if k in "nsL" else "_" for k in FIELDS[kind][index_]]
                    for k in FIELDS[kind][index_]:
                        if k in "nsL":
                            bound.setdefault(k, set()).add(f"v{k}1")
                    end = "]" if begin == "[" else ")"
                    body.append(f"{variable} = {begin}{', '.join(fresh)}{end}")
                elif choice == 2:
                    inner = {}
                    parts = [
                        pattern(*draw(st.sampled_from(relations)), inner)
                        for _ in range(draw(st.integers(1, 2)))
                    ]
                    numeric = sorted(inner.get("n", ()))
                    word = draw(st.sampled_from(["sum", "max"] if numeric else ["count"]))
                    target = draw(st.sampled_from(numeric)) if numeric else ""
                    if draw(st.integers(0, 2)) == 0:
                        word, target = "count", ""
                    body.append(f"k = {word} {target} : {{ {', '.join(parts)} }}")
                    bound.setdefault("n", set()).add("k")
            head = ", ".join(draw(built(k, values(bound), 2)) for k in kinds)
            lines.append(f"{name}({head}) :- {', '.join(draw(st.permutations(body)))}.")
        relations.append((name, kinds))
    name, kind = draw(st.sampled_from([("parts", "L"), ("parts", "T")]))
    lines.append(f".decl {name}(x:{kind}, n:number)")
    for other, kinds in relations:
        if kind in kinds:
            row = ", ".join("x" if i == kinds.index(kind) else "_" for i in range(len(kinds)))
            lines.append(f"{name}(x, 0) :- {other}({row}).")
    if kind == "L":
        lines.append(f"{name}(t, (n + h) band 7) :- {name}([h, t], n).")
    else:
        lines.append(f"{name}(t, min(n + 1, 5)) :- {name}($Fork(t, _), n).")
        lines.append(f"{name}(t, 6) :- {name}(x, _), x = $Fork(_, t), t != $None_().")
    return "\n".join(lines)
