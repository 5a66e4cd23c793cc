"""What "auto" stands for, and that it is said what was chosen, why, and what that loses."""

import sys

import pytest
from tensolog.optimizer import target
from tensolog.optimizer.codegen import compiler, find_compiler
from tensolog.optimizer.setting import KERNELS_TARGET, RUNTIME_TARGET, OptionError
from tensolog.optimizer.target import choose_target

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def real_compilers(monkeypatch, tmp_path):
    monkeypatch.setattr(target, "find_compiler", find_compiler)
    monkeypatch.setenv("TENSOLOG_KERNELS", str(tmp_path / "kernels"))
    monkeypatch.delenv("TENSOLOG_CC", raising=False)


@needs_compiler
def test_native_kernels_are_chosen_where_a_compiler_works():
    choice = choose_target()
    assert choice.target == KERNELS_TARGET
    assert find_compiler().command[0] in choice.reason
    assert not choice.advice


def test_without_a_compiler_the_loss_is_named_and_how_to_install_one(monkeypatch):
    monkeypatch.setattr(compiler, "_candidates", list)
    compiler._compiler_named.cache_clear()
    try:
        choice = choose_target()
    finally:
        compiler._compiler_named.cache_clear()
    assert choice.target == RUNTIME_TARGET
    assert "no C compiler" in choice.reason
    assert "0.79" in choice.advice and "tensolog[kernels]" in choice.install


def script(tmp_path, text):
    """Write a program of Python's that passes for a compiler, as the words of its command."""
    path = tmp_path / "cc.py"
    path.write_text(text, encoding="utf-8")
    return f"{sys.executable} {path}"


STATES_A_VERSION = (
    "import sys\nif sys.argv[1:] == ['--version']:\n    print('cc 1.0')\n    sys.exit()\n"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "said nothing"),
        ("import sys; sys.exit('no licence')", "no licence"),
        (STATES_A_VERSION, "wrote no library"),
        (STATES_A_VERSION + "sys.exit('no licence')", "exit code 1 and said no licence"),
        (STATES_A_VERSION + "open(sys.argv[sys.argv.index('-o') + 1], 'w')", "load"),
    ],
    ids=["silent", "refuses", "writes nothing", "can't compile", "writes no library"],
)
def test_a_compiler_that_compiles_nothing_says_what_was_run_and_what_it_said(
    text, said, tmp_path, monkeypatch
):
    command = script(tmp_path, text)
    monkeypatch.setenv("TENSOLOG_CC", command)
    choice = choose_target()
    assert choice.target == RUNTIME_TARGET
    assert said in choice.reason and str(tmp_path) in choice.reason
    assert choice.advice


@needs_compiler
def test_what_was_asked_for_is_taken():
    for asked in (RUNTIME_TARGET, KERNELS_TARGET, "onnx"):
        assert choose_target(asked).target == asked
    portable = choose_target(portable=True)
    assert (portable.target, portable.portable) == (RUNTIME_TARGET, True)
    assert "--portable" in portable.advice
    assert choose_target("onnx", portable=True).target == "onnx"
    exact = choose_target(allow=("exact",))
    assert exact.target == RUNTIME_TARGET and "--allow" in exact.advice


@pytest.mark.parametrize("asked", [{"portable": True, "asked": KERNELS_TARGET}, {"asked": "gpu"}])
def test_what_can_not_be_had_together_is_refused(asked):
    with pytest.raises(OptionError):
        choose_target(**asked)
