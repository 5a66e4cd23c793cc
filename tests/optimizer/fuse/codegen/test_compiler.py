"""The cache of compiled kernels, and machines without a compiler."""

import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tensolog.catalog.errors import TensologError
from tensolog.optimizer.codegen import CompilerError, compiler, find_compiler
from tensolog.optimizer.codegen.compiler import (
    FLAGS,
    CacheError,
    absence,
    cache_folder,
    key,
    library,
)

from .build import Builder

MACHINES = ("x86_64", "AMD64")
SOURCE = '__attribute__((visibility("default"))) int answer(void) { return 42; }\n'
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
needs_gcc = pytest.mark.skipif(
    find_compiler() is None or find_compiler().is_clang or platform.machine() not in MACHINES,
    reason="only gcc's headers are compiled, and only x86 has these",
)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSOLOG_KERNELS", str(tmp_path))
    return tmp_path


def entry():
    return cache_folder() / key(SOURCE, find_compiler(), FLAGS)


@needs_compiler
def test_compiled_once(own_cache, monkeypatch):
    assert library(SOURCE, find_compiler()).answer() == 42
    assert [path.name for path in own_cache.iterdir()] == [entry().name]

    def never(*arguments, **options):
        raise AssertionError("compiled again")

    monkeypatch.setattr(subprocess, "run", never)
    assert library(SOURCE, find_compiler()).answer() == 42


@needs_compiler
@pytest.mark.parametrize("damage", ["truncated", "altered", "emptied", "no checksum"])
def test_damaged_entries_are_built_anew(own_cache, damage):
    # built by another process: this one must not have the library mapped
    code = (
        "from tensolog.optimizer.codegen.compiler import *; import sys;"
        "print(library(sys.argv[1], find_compiler()).answer())"
    )

    def elsewhere():
        done = subprocess.run(
            [sys.executable, "-c", code, SOURCE], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "42"

    elsewhere()
    (built,) = [path for path in entry().iterdir() if path.name.startswith("kernels")]
    content = built.read_bytes()
    if damage == "no checksum":
        (entry() / "sha256").unlink()
    else:
        kept = {"truncated": content[:1000], "altered": content[:-9] + b"\0" * 9, "emptied": b""}
        built.write_bytes(kept[damage])
    elsewhere()
    assert [path.name for path in own_cache.iterdir()] == [entry().name]


@needs_compiler
@pytest.mark.skipif(os.name == "nt", reason="modes say nothing there")
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_a_folder_that_others_may_write_to_is_refused(own_cache, mode):
    library(SOURCE, find_compiler())
    own_cache.chmod(0o700 | mode)
    with pytest.raises(CacheError, match=r"somebody else's code: .*chmod go-w") as raised:
        library(SOURCE, find_compiler())
    assert "\n" not in str(raised.value)
    own_cache.chmod(0o700)
    assert library(SOURCE, find_compiler()).answer() == 42


@needs_compiler
@pytest.mark.skipif(os.name == "nt", reason="modes say nothing there")
@pytest.mark.parametrize("path", [".", "kernels.so"])
def test_an_entry_that_others_may_write_to_is_built_anew(own_cache, path, monkeypatch):
    library(SOURCE, find_compiler())
    (entry() / path).chmod(0o777)
    runs = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **b: runs.append(a) or run(*a, **b))
    assert library(SOURCE, find_compiler()).answer() == 42
    assert runs
    assert (entry() / path).stat().st_mode & 0o022 == 0


def numbered(number):
    """Return a library that uses vectors, and says which one it is."""
    return f"#include <immintrin.h>\n{SOURCE.replace('42', str(number))}"


@pytest.fixture(scope="module")
def much(tmp_path_factory):
    """A cache in which so many libraries were compiled that the header was, too."""
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSOLOG_KERNELS", str(folder))
        for number in range(compiler.FEW):
            assert library(numbered(number), find_compiler()).answer() == number
        assert not list(folder.glob("header-*"))
        for number in range(compiler.FEW, compiler.FEW + 2):
            assert library(numbered(number), find_compiler()).answer() == number
    return folder


@needs_gcc
def test_the_intrinsics_are_compiled_by_who_compiles_much(much):
    (header,) = much.glob("header-*")
    assert sorted(path.name for path in header.iterdir()) == ["intrinsics.h", "intrinsics.h.gch"]


@needs_gcc
@pytest.mark.parametrize("damage", ["truncated", "emptied", "removed", "plain one removed"])
def test_a_damaged_header_is_left_out(own_cache, much, damage):
    (header,) = much.glob("header-*")
    file = shutil.copytree(header, own_cache / header.name) / "intrinsics.h.gch"
    match damage:
        case "truncated":
            file.write_bytes(file.read_bytes()[:100_000])
        case "emptied":
            file.write_bytes(b"")
        case "removed":
            file.unlink()
        case _:
            file.with_suffix("").unlink()
    assert library(numbered(99), find_compiler()).answer() == 99


@needs_gcc
def test_a_library_is_the_same_with_and_without_the_header(own_cache, much):
    """The first of `much` was compiled before there was a header."""
    (header,) = much.glob("header-*")
    shutil.copytree(header, own_cache / header.name)
    entry = key(numbered(0), find_compiler(), FLAGS)
    library(numbered(0), find_compiler())
    (kernels,) = (file.name for file in (much / entry).iterdir() if file.name.startswith("kernels"))
    built, before = ((folder / entry / kernels).read_bytes() for folder in (own_cache, much))
    assert built == before


@needs_compiler
def test_processes_that_race_all_get_theirs(own_cache):
    code = (
        "from tensolog.optimizer.codegen.compiler import *; import sys;"
        "assert library(sys.argv[1], find_compiler()).answer() == 42"
    )
    command = [sys.executable, "-c", code, SOURCE]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: subprocess.run(command, capture_output=True), range(4)))
    assert [process.returncode for process in done] == [0] * 4, done[0].stderr
    assert [path.name for path in own_cache.iterdir()] == [entry().name]


@needs_compiler
def test_what_the_compiler_said_is_told(own_cache):
    with pytest.raises(CompilerError, match="nonsense"):
        library("int nonsense = ;", find_compiler())
    assert not list(own_cache.iterdir())


@needs_compiler
def test_a_folder_that_can_not_be_made_is_named_and_numpy_computes(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "kernels"
    monkeypatch.setenv("TENSOLOG_KERNELS", str(folder))
    with pytest.raises(CacheError, match="TENSOLOG_KERNELS") as raised:
        library(SOURCE, find_compiler())
    assert isinstance(raised.value, TensologError) and str(folder) in str(raised.value)
    builder = Builder()
    compiled = builder.compiled([builder.cell("Exp", builder.input(np.arange(6.0)))])
    assert "TENSOLOG_KERNELS" in compiled.fallbacks[0][1]


def test_without_a_compiler_numpy_computes_and_says_so():
    builder = Builder()
    x = builder.input(np.arange(6.0).reshape(2, 3))
    compiled = builder.compiled([builder.cell("Exp", x)], compiler="none")
    assert "no C compiler" in compiled.fallbacks[0][1]
    np.testing.assert_array_equal(compiled.run(builder.arrays)[0], np.exp(builder.arrays[0]))


def test_a_command_that_is_no_compiler_is_none():
    assert find_compiler("no-such-compiler-anywhere") is None
    assert "no-such-compiler-anywhere" in absence("no-such-compiler-anywhere")
    assert "install" in absence("none")


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own():
    values = np.ones((400, 300))
    builder = Builder()
    compiled = builder.compiled([builder.reduce("ReduceSum", builder.input(values), (0, 1))])
    assert compiled.run([values], 2)[0] == values.size
    child = os.fork()
    if child == 0:
        os._exit(0 if compiled.run([values], 2)[0] == values.size else 1)
    assert os.waitpid(child, 0)[1] == 0
