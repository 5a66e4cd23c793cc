"""Facts in, relations out: the file formats of the souffle command."""

import csv
import functools
import io
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.catalog.datalog import DatalogError, parse
from tensolog.catalog.datalog.fact_files import read_value
from tensolog.catalog.datalog.language import structures
from tensolog.catalog.datalog.program_files import explain_file, run_files
from tensolog.catalog.errors import TensologError

from tests.campaigns import examples

from .test_examples import EXAMPLES


@pytest.fixture
def go(tmp_path):
    """Run a program text on facts given by file name; gives the report and the output folder."""
    facts, out = tmp_path / "facts", tmp_path / "out"
    facts.mkdir()
    out.mkdir()

    def ran(text, define=None, **files):
        program = tmp_path / "program.dl"
        program.write_text(text)
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            (facts / f"{name}.facts").write_bytes(data)
        return run_files(program, facts, out, define=define), out

    return ran


def test_tab_separated_facts_and_csv(go):
    text = (
        ".decl a(i:number, u:unsigned, f:float, s:symbol) .input a .output a\n"
        '.decl n(x:number) n(3). .output n(filename="sub.txt") .printsize n, a'
    )
    report, out = go(text, a='-1\t2\t0.1\ta b\n5\t0x10\t1e3\t"q"\r\n-1\t2\t0.1\ta b\n')
    assert sorted((out / "a.csv").read_text().splitlines()) == [
        "-1\t2\t0.10000000000000001\ta b",
        '5\t16\t1000\t"q"',
    ]
    assert (out / "sub.txt").read_text() == "3\n"
    assert report.text == "n\t1\na\t2\n"
    assert report.rows == {"a": 2, "n": 1}
    assert sorted(p.name for p in out.iterdir()) == ["a.csv", "sub.txt"]


def test_extra_fields_are_ignored_and_columns_chosen(go):
    text = (
        '.decl a(x:number, s:symbol) .input a(columns="2:0", delimiter=";", headers=true) .output a'
    )
    _, out = go(text, a="h1;h2;h3\nx;-;1;more\ny;-;2\n")
    assert (out / "a.csv").read_text() == "1\tx\n2\ty\n"


def test_headers_delimiters_and_stdout(go):
    text = (
        '.decl a(x:number, y:symbol) a(1, "p").\n'
        '.output a(headers=true, delimiter=", ")\n.output a(IO=stdout, headers=true)'
    )
    report, out = go(text)
    assert (out / "a.csv").read_text() == "x, y\n1, p\n"
    assert report.text == "---------------\na\nx\ty\n===============\n1\tp\n===============\n"


def test_rfc4180(go):
    text = ".decl a(s:symbol, x:number) .input a(rfc4180=true) .output a"
    _, out = go(text, a='"x, ""y""",1\nplain,2\n"",3\n')
    assert sorted((out / "a.csv").read_text().splitlines()) == ["\t3", "plain\t2", 'x, "y"\t1']


def test_several_inputs_add_up(go):
    text = '.decl a(x:number) input .input a(filename="b.facts", delimiter=";") .output a'
    _, out = go(text, a="1\n2\n", b="2;\n3;\n")
    assert (out / "a.csv").read_text() == "1\n2\n3\n"


ROWS = st.lists(st.tuples(st.text('ab",\n \t', max_size=6), st.integers(-9, 9)), max_size=5)


@settings(max_examples=examples(25), deadline=None)
@given(ROWS)
def test_quoted_fields_of_several_lines(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with (path / "a.facts").open("w", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerows(rows)
        program = path / "p.dl"
        text = ".decl a(s:symbol, x:number) .input a(rfc4180=true)\n.decl b(s:symbol, x:number)\n"
        program.write_text(
            text + '.output b(rfc4180=false, filename="b", delimiter="|") b(s, x) :- a(s, x).'
        )
        run_files(program, path, path)
        expected = sorted(set(rows), key=lambda row: (row[0].encode(), row[1]))
        assert (path / "b").read_text() == "".join(f"{s}|{x}\n" for s, x in expected)


STRUCTURED = """.type L = [h:number, t:L] .type P = [s:symbol, f:float, u:unsigned]
.type T = Leaf {} | Fork {l:T, r:T} | Pair {p:P, l:L} | One {n:number}
.decl a(x:L, y:T, s:symbol) a(nil, $Leaf(), "s").
"""


def test_structures_are_spelled_as_souffle_does(go):
    text = STRUCTURED + 'a([1, [-2, nil]], $Fork($Leaf(), $Pair(["x", 0.5, 3], nil)), "t").\n'
    _, out = go(text + '.output a .output a(rfc4180=true, filename="q")')
    lines = ["nil\t$Leaf\ts\n", "[1, [-2, nil]]\t$Fork($Leaf, $Pair([x, 0.5, 3], nil))\tt\n"]
    assert sorted((out / "a.csv").read_text().splitlines(True)) == sorted(lines)
    pair = '"$Fork($Leaf, $Pair([""x"", 0.5, 3], nil))"'
    assert f'"[1, [-2, nil]]",{pair},"t"\n' in (out / "q").read_text()


LISTS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=4).map(
    lambda values: functools.reduce(lambda tail, value: (value, tail), values, None)
)
PAIRS = st.tuples(
    st.text("ab .é", max_size=3).map(str.strip), st.floats(), st.integers(0, (1 << 64) - 1)
)
TREES = st.recursive(
    st.one_of(
        st.just(("Leaf",)),
        st.tuples(st.just("Pair"), PAIRS, LISTS),
        st.tuples(st.just("One"), st.integers(-9, 9)),
    ),
    lambda inner: st.tuples(st.just("Fork"), inner, inner),
    max_leaves=4,
)
TYPES = parse(STRUCTURED).structures


@given(LISTS, TREES)
def test_structures_survive_json_and_text(listed, tree):
    for value, kind in ((listed, "L"), (tree, "T")):
        text = structures.encode(value, kind, TYPES)
        assert repr(structures.decode(text, kind, TYPES)) == repr(value)
        spelled = structures.spell(value, kind, TYPES, lambda symbol: symbol)
        assert structures.read(spelled, kind, TYPES, read_value) == text


def test_facts_over_structures_are_read(go):
    text = STRUCTURED + ".input a .decl b(n:number, s:symbol) .output b\n"
    text += "b(n, s) :- a([n, _], $Pair([s, _, 18446744073709551615], nil), _)."
    facts = "[7,[ 1 , nil ] ]\t$Pair( [x y, inf, 18446744073709551615] , nil)\ts\n"
    _, out = go(text, a=facts + "nil\t$Leaf()\tt\n")
    assert (out / "b.csv").read_text() == "7\tx y\n"


@pytest.mark.parametrize("field", ["[1]", "[1, nil] x", "[1, nil", "[1 nil]", "1", "[x, nil]", ""])
def test_facts_that_are_no_structures_are_named(go, field):
    with pytest.raises(TensologError, match=r"a.facts:1: .* in field 1 is no L \(relation a\)"):
        go(STRUCTURED + ".input a .output a", a=f"{field}\t$Leaf\ts\n")


def test_lists_of_any_depth_are_written_and_read(go):
    text = ".type L = [h:number, t:L] .decl a(x:L) a(nil). .decl n(x:number) n(0).\n"
    text += ".decl l(n:number, x:L) l(0, nil). l(n + 1, [n, x]) :- l(n, x), n < 1500.\n"
    _, out = go(text + "a(x) :- l(1500, x). .output a")
    facts = (out / "a.csv").read_text()
    _, out = go(".type L = [h:number, t:L] .decl a(x:L) .input a .output a", a=facts)
    assert (out / "a.csv").read_text() == facts


def test_a_field_that_is_never_closed_is_named_by_its_first_line(go):
    text = ".decl a(s:symbol, x:number) .input a(rfc4180=true) .output a"
    with pytest.raises(TensologError, match=r"a.facts:2: a quoted field is never closed"):
        go(text, a='"b",1\n"c\nd,2\n')
    with pytest.raises(TensologError, match=r"a.facts:3: 'x' in field 2 is no number"):
        go(text, a='"b\nc",1\n"d",x\n')


def test_brackets_hide_a_comma(go):
    text = '.decl a(s:symbol, t:symbol) .input a(delimiter=",") .output a'
    _, out = go(text, a="f[x,y](z),w\np,q,r]\n[[,],],\n")
    assert (out / "a.csv").read_text() == "[[,],]\t\nf[x,y](z)\tw\np\tq\n"
    with pytest.raises(TensologError, match=r"a.facts:2: a bracket has no other"):
        go(text, a="p,q\nf[x,y\n")


def test_nullary_relations(go):
    text = ".decl p() .input p .decl q() .output p, q .decl e() .input e .output e q() :- p()."
    _, out = go(text, p="()\n", e="")
    assert [(out / f"{n}.csv").read_text() for n in "pqe"] == ["()\n", "()\n", ""]


def test_qualifiers_read_and_write(go):
    _, out = go(".decl a(x:number) input output printsize", a="1\n")
    assert (out / "a.csv").read_text() == "1\n"


def test_standard_input(go, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("4\n5\n"))
    _, out = go(".decl a(x:number) .input a(IO=stdin) .output a")
    assert (out / "a.csv").read_text() == "4\n5\n"


def test_only_what_the_outputs_need_is_computed(go):
    text = (
        ".decl a(x:number) a(1). .output a\n"
        ".decl endless(x:number) endless(0). endless(x + 1) :- endless(x).\n"
        ".decl unread(x:number) .input unread"
    )
    _, out = go(text)
    assert (out / "a.csv").read_text() == "1\n"


def test_macros_from_the_command_line(go):
    _, out = go(".decl a(x:number) a(N). .output a", define={"N": "9"})
    assert (out / "a.csv").read_text() == "9\n"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ("1\n", "facts/a.facts:1: a needs 2 fields, this line has 1"),
        ("1\tx\nz\ty\n", "facts/a.facts:2: 'z' in field 1 is no number"),
        ("1_0\tx\n", "'1_0' in field 1 is no number"),
        ("9223372036854775808\tx\n", "in field 1 is no number"),
        ("1 \tx\n", "'1 ' in field 1 is no number"),
        (b"1\t\xff\n", "a.facts is not UTF-8 text"),
    ],
)
def test_bad_facts_are_named(go, facts, reason):
    with pytest.raises(TensologError) as error:
        go(".decl a(x:number, s:symbol) .input a .output a", a=facts)
    assert reason in str(error.value)


def test_missing_facts_are_named(go):
    with pytest.raises(DatalogError, match=r"can't read the facts of a: .*a\.facts: No such file"):
        go(".decl a(x:number) .input a .output a")


@pytest.mark.parametrize(
    ("directive", "reason"),
    [
        (".input a(IO=sqlite, dbname=x)", "IO=sqlite of a is outside the dialect"),
        (".output a(IO=jsonfile)", "IO=jsonfile of a is outside the dialect"),
        (".output a(compress=true)", "compress of a is outside the dialect"),
        ('.input a(columns="x")', "columns=x does not name 1 fields"),
    ],
)
def test_parameters_outside_the_dialect_are_refused(go, directive, reason):
    with pytest.raises(DatalogError, match=reason) as error:
        go(f".decl a(x:number) {directive} .output a", a="1\n")
    assert error.value.line == 1


def test_output_folders_that_can_not_be_written(go, tmp_path):
    (tmp_path / "p.dl").write_text(".decl a(x:number) a(1). .output a")
    with pytest.raises(TensologError, match="can't write"):
        run_files(tmp_path / "p.dl", tmp_path, tmp_path / "nowhere")


def test_files_appear_whole_or_not_at_all(go, tmp_path, monkeypatch):
    text = '.decl a(x:number) a(1). .output a\n.decl s(x:symbol) s("{}"). .output s'
    _, out = go(text.format("first"))

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.replace", full)
        with pytest.raises(TensologError, match=r"can't write .*a\.csv: No space left"):
            go(text.format("second"))
    assert sorted(p.name for p in out.iterdir()) == ["a.csv", "s.csv"]
    assert (out / "s.csv").read_text() == "first\n"


def test_devices_are_written_to_and_links_followed(go, tmp_path):
    (tmp_path / "real").write_text("older")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    go(f'.decl a(x:number) a(1). .output a(filename="{tmp_path}/link")')
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "1\n"
    go('.decl a(x:number) a(1). .output a(filename="/dev/null")')
    assert Path("/dev/null").is_char_device()
    report, out = go('.decl a(x:number) a(1). .output a(filename="/dev/stdout")')
    assert report.text == "1\n"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    go(f'.decl a(x:number) a(1). .output a(filename="{tmp_path}/pipe")')
    assert os.read(reader, 10) == b"1\n"
    os.close(reader)
    assert list(out.iterdir()) == []


def test_standard_error_is_not_replaced(tmp_path):
    (tmp_path / "p.dl").write_text('.decl a(x:number) a(1). .output a(filename="/dev/stderr")')
    code = "import sys; from tensolog.catalog.datalog.program_files import run_files; "
    code += "print('first', file=sys.stderr, flush=True); run_files('p.dl')"
    with (tmp_path / "log").open("ab") as log:
        command = [sys.executable, "-c", code]
        subprocess.run(command, cwd=tmp_path, stderr=log, check=True)
        inode = os.fstat(log.fileno()).st_ino
    assert (tmp_path / "log").read_text() == "first\n1\n"
    assert (tmp_path / "log").stat().st_ino == inode


def test_a_program_that_is_not_there(tmp_path):
    with pytest.raises(TensologError, match="can't read"):
        run_files(tmp_path / "none.dl", tmp_path, tmp_path)
    with pytest.raises(TensologError, match="unknown engine"):
        run_files(tmp_path / "none.dl", tmp_path, tmp_path, engine="other")


def test_bytes_that_are_not_utf8(tmp_path):
    program = tmp_path / "p.dl"
    program.write_bytes(b'// caf\xe9\n.decl a(x:symbol) a("x"). .output a')
    run_files(program, tmp_path, tmp_path)
    assert (tmp_path / "a.csv").read_text() == "x\n"
    program.write_bytes(b'.decl a(x:symbol)\na("\xe9").')
    with pytest.raises(DatalogError, match="not UTF-8") as error:
        run_files(program, tmp_path, tmp_path)
    assert (error.value.line, error.value.column) == (2, 4)


def test_explaining_a_file():
    assert "WITH RECURSIVE" in explain_file(EXAMPLES[0].parent / "transitive_closure.dl")


def test_souffle_missing_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TensologError, match="souffle is not on the PATH"):
        run_files(EXAMPLES[0], tmp_path, tmp_path, engine="souffle")


def test_souffle_gets_the_folders(tmp_path, monkeypatch):
    command = tmp_path / "souffle"
    command.write_text(f"#!{sys.executable}\nimport sys\nprint(*sys.argv[1:])\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    report = run_files("x.dl", "in", "out", engine="souffle", define={"N": "1"})
    assert report.text == "-F in -D out --macro=N=1 x.dl\n"
    command.write_text(f'#!{sys.executable}\nimport sys\nsys.exit("Error: no")\n')
    with pytest.raises(TensologError, match=r"souffle refused x\.dl: Error: no"):
        run_files("x.dl", "in", "out", engine="souffle")


@pytest.mark.skipif(shutil.which("souffle") is None, reason="souffle is not on the PATH")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_souffle_gives_the_same_relations(path, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    run_files(path, tmp_path, ours)
    run_files(path, tmp_path, theirs, engine="souffle")
    names = sorted(p.name for p in theirs.iterdir())
    assert sorted(p.name for p in ours.iterdir()) == names
    for name in names:
        mine, other = (folder / name for folder in (ours, theirs))
        assert sorted(mine.read_text().splitlines()) == sorted(other.read_text().splitlines())
