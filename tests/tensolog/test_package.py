"""What is published holds all that a reader needs, and says of itself what is true."""

import email
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tracked():
    """The files of the repository; without one there is nothing to compare with."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode or not done.stdout:
        pytest.skip("needs the repository")
    # Those that were removed and not committed are gone all the same.
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}


def build(folder, kind, out):
    """Build a distribution with the packages that are here, as `python -m build -n` does."""
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    (path,) = out.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return path


@pytest.fixture(scope="module")
def built(tracked, tmp_path_factory):
    """A source distribution, a wheel from it, and a wheel from the tree."""
    folder = tmp_path_factory.mktemp("package")
    tree = folder / "tree"
    for name in tracked:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    sdist = build(tree, "sdist", folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked, build(unpacked, "wheel", folder / "again"), build(tree, "wheel", folder / "w")


def test_the_source_distribution_holds_the_repository(tracked, built):
    unpacked, _, _ = built
    names = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*")}
    assert tracked - names == {".gitignore"}
    for name in tracked - {".gitignore"}:
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes(), name


def test_a_wheel_is_the_same_from_either(built):
    _, *wheels = built
    contents = []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            contents.append({name: archive.read(name) for name in archive.namelist()})
    assert contents[0] == contents[1]
    assert "tensolog/catalog/store/schema.sql" in contents[0]
    assert not any(name.startswith(("tests/", "docs/", "examples/")) for name in contents[0])


def test_its_description_is_the_readme(built):
    unpacked, wheel, _ = built
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "aster ONNX models" in metadata["Summary"]
    first = (unpacked / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    text = metadata.get_payload(decode=True).decode()
    assert first in text
    assert "](docs/" not in text
