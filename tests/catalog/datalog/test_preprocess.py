"""The preprocessor: comments, macros, conditions, includes, and positions after them."""

import pytest
from tensolog.catalog.datalog import DatalogError, parse
from tensolog.catalog.datalog.language.preprocess import preprocess


def out(text, **define):
    return "\n".join(line.rstrip() for line in preprocess(text, "p.dl", define).lines).rstrip()


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a // b\nc", "a\nc"),
        ("a /* b\nc */ d", "a\n     d"),
        ('"// no" /* yes */ "/* no */"', '"// no"           "/* no */"'),
        ('#define N 5\na(N, Nn, "N").', '\na(5, Nn, "N").'),
        ("#define F(x, y) x + y\nF(1, (2, 3))", "\n1 + (2, 3)"),
        ("#define F(x) x\nF", "\nF"),
        ("#define A B\n#define B A\nA", "\n\nA"),
        ("#define A B\n#define B 1\nA B", "\n\n1 1"),
        ("#define CAT(x, y) x##y\nCAT(re, l)", "\nrel"),
        ("#define F(x) x\nF(\n1\n)", "\n 1 " if False else "\n1"),
        ("#define A \\\n 1\nA", "\n\n1"),
        ("#define A 1\n#undef A\nA", "\n\nA"),
        ("#ifdef A\n1\n#else\n2\n#endif", "\n\n\n2"),
        ("#ifndef A\n1\n#else\n2\n#endif", "\n1"),
        ("#if defined(A) || 1 < 2\n1\n#elif 1\n2\n#endif", "\n1"),
        ("#if 0\n#if 1\n1\n#endif\n#elif 2 > 1\n2\n#else\n3\n#endif", "\n\n\n\n\n2"),
        ("#if 0\n#error no\n#endif\n1", "\n\n\n1"),
        ('a("#") # b "c\nd', 'a("#")\nd'),
        ("#define A 1 \\\n # 2\nA", "\n\n1   # 2"),
        ('#define S(x) #x\nS(a "b\\n" 1)', '\n"a \\"b\\\\n\\" 1"'),
        ("#define F(x, ...) x(__VA_ARGS__)\nF(a, 1, (2, 3)) F(b)", "\na(1, (2, 3)) b()"),
        ("#define F(all...) a(all)\nF(1, 2)", "\na(1, 2)"),
        ('@[a = {"]", (b)}] c @![d]\n@f(1) @@g', "                  c\n@f(1) @@g"),
        ("@[a // ]\n] b", "\n  b"),
        ("#define AT __LINE__\na(__FILE__, AT,\n__LINE__)", '\na("p.dl", 2,\n3)'),
    ],
)
def test_preprocessed_text(text, result):
    assert out(text) == result


def test_the_size_of_numbers_is_told(run):
    text = "#if RAM_DOMAIN_SIZE == 64\n.decl a(x:number) a(RAM_DOMAIN_SIZE).\n#else\nno\n#endif"
    assert run(text)["a"] == {(64,)}


def test_definitions_come_from_outside():
    assert out("#if N > 2\na(N).\n#endif", N="3") == "\na(3)."


def test_positions_survive_macros_and_comments():
    text = "/* one\n   two */\n#define ARGS 1, 2\n.decl a(x:number)\na(ARGS), b(1)."
    source = preprocess(text, "p.dl")
    assert source.lines[4] == "a(1, 2), b(1)."
    assert source.position(5, 1) == ("p.dl", 5, 1)
    assert source.position(5, 5) == ("p.dl", 5, 3)
    assert source.position(5, 10) == ("p.dl", 5, 10)
    with pytest.raises(DatalogError) as error:
        parse("#define TWO 1, 2\n.decl a(x:number)\na(1). a(TWO).", "p.dl")
    assert (error.value.line, error.value.column) == (3, 7)


def test_includes_are_relative_and_errors_name_their_file(tmp_path, run):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "types.dl").write_text('#include "deep.dl"\n.decl a(x:number)\n')
    (tmp_path / "lib" / "deep.dl").write_text("#define ONE 1\n")
    main = '#include "lib/types.dl"\na(ONE).\n'
    assert len(parse(main, str(tmp_path / "main.dl")).relations["a"].facts) == 1
    (tmp_path / "lib" / "deep.dl").write_text("\n.decl b(x:wrong)\n")
    with pytest.raises(DatalogError) as error:
        parse(main, str(tmp_path / "main.dl"))
    assert error.value.path.endswith("deep.dl")
    assert (error.value.line, error.value.column) == (2, 11)


def test_the_newer_include_directive(tmp_path):
    (tmp_path / "once.dl").write_text(".once\n.decl a(x:number)\n")
    main = '.include "once.dl"\n.include "once.dl"\na(1).\n'
    assert list(parse(main, str(tmp_path / "main.dl")).relations) == ["a"]


def test_pragma_once_knows_a_file_by_all_its_names(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "once.dl").write_text("#pragma once\n.decl a(x:number)\n")
    main = '#include "once.dl"\n#include "lib/../once.dl"\na(1).\n'
    assert list(parse(main, str(tmp_path / "main.dl")).relations) == ["a"]


def test_endless_includes_are_refused(tmp_path):
    (tmp_path / "self.dl").write_text('#include "self.dl"\n')
    with pytest.raises(DatalogError, match="include each other"):
        parse('#include "self.dl"', str(tmp_path / "main.dl"))


def test_a_hash_line_that_is_no_directive_is_a_comment_with_a_note():
    source = preprocess("# vim: set filetype=prolog:\n#if 0\n# not this\n#endif\na(1).", "p.dl")
    assert source.text.split() == ["a(1)."]
    assert source.notes == ["p.dl:1: #vim is no directive: a comment"]
