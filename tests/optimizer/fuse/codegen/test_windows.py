"""What differs on Windows, as far as another system shows it: commands, and libraries for it."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
from tensolog.optimizer.codegen.compiler import FLAGS, Compiler, words
from tensolog.optimizer.codegen.unit import LEVELS, unit
from tensolog.optimizer.fuse.codegen.compiled import lower
from tensolog.optimizer.fuse.planning import Machine, plan
from tensolog.optimizer.fuse.planning.fusion_plan import FusedOperator

from tests.optimizer.fuse.planning import programs


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (r"C:\tools\clang.exe", (r"C:\tools\clang.exe",)),
        (r'"C:\Program Files\zig.exe" cc', (r"C:\Program Files\zig.exe", "cc")),
        ("clang -m64", ("clang", "-m64")),
    ],
)
def test_a_path_keeps_its_backslashes(command, expected):
    assert words(command, windows=True) == expected


def test_other_systems_quote_as_shells_do():
    assert words(r"/opt/my\ tools/cc -m64", windows=False) == ("/opt/my tools/cc", "-m64")


@pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang isn't installed")
@pytest.mark.parametrize("name", ["glm", "cross_entropy"])
def test_kernels_compile_for_windows(name, tmp_path):
    """For each instruction set, and from a file with the ends of lines that Windows has."""
    program = getattr(programs, name)()
    kernels = [
        lower(program, step, f"kernel_{number}")
        for number, step in enumerate(plan(program, Machine(cores=2)).steps)
        if isinstance(step, FusedOperator)
    ]
    zig = Compiler((sys.executable, "-m", "ziglang", "cc"), "clang version")
    text = unit([(kernel.name, kernel.text) for kernel in kernels], tuple(LEVELS), zig)
    source, target = tmp_path / "kernels.c", tmp_path / "kernels.dll"
    source.write_text(text, encoding="utf-8", newline="\r\n")
    command = [
        *zig.command,
        "-target",
        "x86_64-windows-gnu",
        *FLAGS,
        str(source),
        "-o",
        str(target),
    ]
    done = subprocess.run([*command, "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    content = target.read_bytes()
    assert content[:2] == b"MZ"
    assert all(kernel.name.encode() + b"\0" in content for kernel in kernels)
