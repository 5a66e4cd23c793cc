"""The library: loaded by ONNX Runtime, refused clearly where it can't be, and clean to its host."""

import ctypes
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from tensolog.optimizer.codegen import CompilerError, compiler
from tensolog.optimizer.codegen.compiler import FLAGS
from tensolog.optimizer.codegen.unit import LEVELS, native_level
from tensolog.optimizer.native import library as libraries
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.loops.kernel_region import Meanings

from .build import check, fused, kernels_of, model, needs_compiler, opened, typed

node = helper.make_node


def chain(name="Mish"):
    nodes = [
        node("Add", ["x", "b"], ["a"]),
        node(name, ["a"], ["m"]),
        node("Mul", ["m", "y"], ["z"]),
    ]
    bias = np.linspace(-1, 1, 24, dtype=np.float32)
    sizes = {"x": ["n", 24], "y": ["n", 24]}
    return model(nodes, sizes, {"z": ["n", 24]}, {"b": bias})


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((count, 24)).astype(np.float32) for name in "xy"}


@needs_compiler
def test_a_chain_is_one_operator_of_any_number_of_rows():
    changed, _ = check(chain(), *(rows(count) for count in (0, 1, 7, 1000)), expect=1)
    assert len(changed.graph.node) == 1


@needs_compiler
def test_threads_of_the_runtime_share_the_work():
    check(chain(), rows(20_000), expect=1, threads=2)


@needs_compiler
@pytest.mark.parametrize("level", list(LEVELS)[list(LEVELS).index(native_level()) :])
def test_each_instruction_set_computes_the_same(level):
    nodes = [
        node("MatMul", ["x", "k"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["a"]),
        node("Gelu", ["a"], ["g"], approximate="tanh"),
        node("LayerNormalization", ["g", "w"], ["y"], axis=-1),
    ]
    rng = np.random.default_rng(0)
    sizes = {"k": (24, 50), "v": (50, 24), "w": (24,)}
    constants = {n: rng.standard_normal(s).astype(np.float32) for n, s in sizes.items()}
    proto = model(nodes, {"x": ["n", 24]}, {"y": ["n", 24]}, constants)
    check(proto, {"x": rows(70)["x"]}, expect=2, levels=(level,))


@needs_compiler
def test_all_instruction_sets_in_one_library():
    check(chain(), rows(50), expect=1, levels=None)


@needs_compiler
def test_two_libraries_in_one_session():
    (mish, first), (other, second) = fused(chain("Mish")), fused(chain("Softplus"))
    assert first.domain != second.domain
    for proto in (mish, other):
        opened(proto, first, second).run(None, rows(3))


@needs_compiler
def test_a_size_that_the_model_declares_equal_must_be():
    changed, library = fused(chain())
    inputs = {"x": rows(3)["x"], "y": rows(4)["y"]}
    with pytest.raises(Exception, match="another size than the model"):
        opened(changed, library).run(None, inputs)


@needs_compiler
def test_equal_kernels_are_compiled_once():
    (first, library), (second, other) = fused(chain()), fused(chain())
    assert library.path == other.path
    assert kernels_of(first) == kernels_of(second)


@needs_compiler
def test_the_callers_subnormal_numbers_survive():
    changed, library = fused(chain())
    session = opened(changed, library)
    session.run(None, rows(3))
    assert np.float32(1e-40) * np.float32(1.0) != 0


def test_without_a_compiler_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(libraries, "find_compiler", lambda: None)
    with pytest.raises(CompilerError, match=r"install gcc or clang, or pip install"):
        fused(chain())


class Base(ctypes.Structure):
    """OrtApiBase."""

    GET = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_uint32)
    VERSION = ctypes.CFUNCTYPE(ctypes.c_size_t)
    _fields_ = [("get", GET), ("version", VERSION)]


@needs_compiler
def test_a_runtime_that_is_too_old_is_refused_with_its_version():
    _, library = fused(chain())
    said = []

    def refused(code, text):
        said.append((code, text.decode()))
        return 1

    status = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p)(refused)
    table = (ctypes.c_void_p * 1)(ctypes.cast(status, ctypes.c_void_p))
    version = ctypes.create_string_buffer(b"1.16.3")
    base = Base(
        Base.GET(lambda wanted: ctypes.addressof(table) if wanted == 1 else 0),
        Base.VERSION(lambda: ctypes.addressof(version)),
    )
    register = ctypes.CDLL(str(library.path)).RegisterCustomOps
    register.restype = ctypes.c_size_t
    assert register(None, ctypes.byref(base)) == 1
    assert said == [(1, "these kernels need ONNX Runtime 1.17 or newer; this one is 1.16.3")]


@needs_compiler
@pytest.mark.skipif(native_level() == "plain", reason="no processor lacks what this one has")
def test_a_processor_that_lacks_the_instructions_is_told_so():
    level = native_level()
    changed, library = fused(chain(), levels=(level,))
    asked = f"static int has_{level}(void) {{"
    assert asked in library.source
    lacking = library.source.replace(asked, f"{asked} return 0;")
    there = replace(library, path=compiler.library_file(lacking, compiler.find_compiler()))
    with pytest.raises(
        Exception, match=r"run on processors with AVX.* alone, which this one lacks"
    ):
        opened(changed, there)
    opened(changed, library).run(None, rows(3))


HEADERS = Path(libraries.__file__).parent / "headers"
GUARDED = re.compile(r"^#ifndef (\w+)\n#define \1\b.*?^#endif", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("header", sorted(HEADERS.glob("*.h")), ids=lambda header: header.name)
def test_each_instruction_set_has_the_functions_of_a_header(header):
    """A header is read once for each, and names its functions anew; types are declared once."""
    for guarded in GUARDED.finditer(header.read_text(encoding="utf-8")):
        lines = guarded.group(0).splitlines()
        functions = [line for line in lines if line.startswith("static") and "(" in line]
        assert not functions, functions


# In every library; the others are in those of kernels that ask for them, in an order that they can.
EVERYWHERE = {"brief.h", "call.h", "operators.h", "runtime.h"}
SUPPORTS = (
    *("elements.h", "product.h", "product_halves.h", "product_seven.h", "product_tiles.h"),
    "product_four_bits.h",
    *("convolution_blocks.h", "convolution.h", "convolution_apart.h", "convolution_pair.h"),
    *("quantized.h", "quantized_apart.h", "quantized_pool.h", "running_norm.h"),
    *("quantized_narrow.h", "quantized_matrices.h", "quantized_pairs.h", "quantized_softmax.h"),
    *("attention.h", "indexed.h", "stepped.h"),
)


@needs_compiler
def test_all_headers_compile_together_for_all_instruction_sets():
    """What is declared once for all has a guard, and what each has of its own has none."""
    assert {*SUPPORTS, *EVERYWHERE} == {header.name for header in HEADERS.glob("*.h")}
    graph = typed(chain())
    (kernel,) = (region.kernel for region in regions(Meanings(graph), graph.nodes))
    libraries.build([replace(kernel, support=" ".join(SUPPORTS))], flags=["-O0", *FLAGS[1:]])
