"""Random NumPy functions as text, from a seed: what fuses, and what NumPy code does around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Shape = tuple[int, ...]

# Values stay tame, so that a wrong one shows: what grows is bounded before it grows.
UNARY = [
    "np.tanh({})",
    "np.exp(-np.abs({}))",
    "np.exp(np.clip({}, -3, 3))",
    "np.log(np.abs({}) + 1.0)",
    "np.sqrt(np.abs({}))",
    "np.sin({})",
    "np.cos({})",
    "np.abs({})",
    "-{}",
    "{} ** 2",
    "{} * 0.5",
    "{} + 1.5",
    "1.0 - {}",
    "2.0 / (1.0 + np.abs({}))",
    "np.maximum({}, 0.1)",
    "np.minimum({}, 0.7)",
    "np.clip({}, -0.5, 0.5)",
    "np.floor({})",
    "np.sign({})",
    "np.square({})",
    "np.arctan({})",
    "1.0 / (1.0 + np.exp(-{}))",
    "np.log1p(np.abs({}))",
    "({} > 0.2) * 1.0",
    "np.where({0} > 0, {0}, 0.1 * {0})",
    "np.where(np.isnan({0}), 0.0, {0})",
]
BINARY = [
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "{} / (1.0 + np.abs({}))",
    "np.maximum({}, {})",
    "np.minimum({}, {})",
    "np.where({0} > {1}, {0}, {1} * 0.5)",
    "({} > {}) * 1.0",
    "({} <= {}).astype(float)",
    "({} != {}) + 0.5",
    "np.sqrt(({0} - {1}) ** 2 + 1.0)",
    "np.power(np.abs({}) + 0.5, np.tanh({}))",
]
REDUCING = ["sum", "sum", "sum", "mean", "max", "min"]
# A number out of a matrix, an axis of it, or the axis kept.
DIMS = ["", "axis=0", "axis=1", "axis=0, keepdims=True", "axis=1, keepdims=True"]


@dataclass
class Case:
    """A function f over arrays, as text, with its arguments."""

    seed: int
    source: str
    inputs: dict[str, Any]
    mutates: bool = False

    def function(self) -> Callable[..., Any]:
        names: dict[str, Any] = {"np": np}
        exec(compile(self.source, f"<seed {self.seed}>", "exec"), names)
        defined: Callable[..., Any] = names["f"]
        return defined


@dataclass
class Writer:
    """Grows a function statement by statement; `pool` holds the shapes of its variables."""

    rng: np.random.Generator
    m: int
    n: int
    k: int
    dtype: str
    pool: dict[str, Shape] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    mutates: bool = False

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def array(self, shape: Shape) -> Any:
        values = np.asarray(self.rng.normal(size=shape)).astype(self.dtype)
        style = self.rng.random()
        if values.ndim == 2 and style < 0.15:
            return np.asfortranarray(values)
        if values.ndim == 2 and style < 0.3:
            return np.repeat(np.repeat(values, 2, axis=0), 3, axis=1)[::2, ::3]
        if values.ndim == 1 and style < 0.2:
            return np.repeat(values, 2)[::-2][::-1]
        if style < 0.35:
            values.setflags(write=False)
        return values

    def input(self, name: str, shape: Shape) -> None:
        self.inputs[name] = self.array(shape)
        self.pool[name] = shape

    def put(self, text: str, shape: Shape) -> None:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.pool[name] = shape

    def some(self, keep: Callable[[Shape], bool] = lambda shape: True) -> str | None:
        names = [name for name, shape in self.pool.items() if keep(shape)]
        if not names:
            return None
        # Newer ones more often, so that expressions grow deep.
        weights = np.arange(1, len(names) + 1, dtype=float)
        return str(self.rng.choice(names, p=weights / weights.sum()))

    def step(self) -> None:
        kinds: list[tuple[float, Callable[[], None]]] = [
            (3.0, self.unary),
            (5.0, self.binary),
            (2.5, self.reduce),
            (2.5, self.matmul),
            (0.7, self.transpose),
            (0.7, self.slice),
            (0.5, self.reshape),
            (0.25, self.write),
            (0.1, self.branch),
            (0.2, self.odd),
            (3.0 if "S" in self.inputs else 0.0, self.sparse),
        ]
        weights = np.array([weight for weight, _ in kinds])
        kinds[int(self.rng.choice(len(kinds), p=weights / weights.sum()))][1]()

    def unary(self) -> None:
        name = self.some()
        assert name is not None
        self.put(self.pick(UNARY).format(name), self.pool[name])

    def binary(self) -> None:
        left = self.some()
        assert left is not None

        def fits(shape: Shape) -> bool:
            try:
                broadcast = np.broadcast_shapes(shape, self.pool[left])
            except ValueError:
                return False
            return int(np.prod(broadcast)) <= 40 * max(1, self.m * self.n)

        right = self.some(fits)
        assert right is not None
        pair = (left, right) if self.rng.random() < 0.5 else (right, left)
        shape = np.broadcast_shapes(self.pool[left], self.pool[right])
        self.put(self.pick(BINARY).format(*pair), shape)

    def reduce(self) -> None:
        name = self.some(lambda shape: len(shape) > 0)
        if name is None:
            return
        shape = self.pool[name]
        kind = self.pick(REDUCING)
        dims = self.pick(DIMS if len(shape) == 2 else ["", "axis=0", "keepdims=True"])
        if self.rng.random() < 0.5:
            text = f"{name}.{kind}({dims})"
        else:
            text = f"np.{kind}({name}{', ' if dims else ''}{dims})"
        if len(shape) > 2:
            return
        self.put(text, np.zeros(shape).sum(**eval(f"dict({dims})")).shape)

    def matmul(self) -> None:
        left = self.some(lambda shape: len(shape) in (1, 2))
        if left is None:
            return
        a = self.pool[left]
        if len(a) == 2 and self.rng.random() < 0.4:
            right = self.some(lambda b: 0 < len(b) <= 2 and b[0] == a[0])
            if right is not None:
                self.product(f"{left}.T", (a[1], a[0]), right, self.pool[right])
            return
        right = self.some(lambda b: 0 < len(b) <= 2 and b[0] == a[-1])
        if right is not None:
            self.product(left, a, right, self.pool[right])

    def product(self, left: str, a: Shape, right: str, b: Shape) -> None:
        shape = (np.zeros(a) @ np.zeros(b)).shape
        if int(np.prod(shape)) > 40 * max(1, self.m * self.n):
            return
        scale = self.pick(["", " / {}.shape[0]", " * 0.1"]).format(right)
        self.put(f"({left} @ {right}){scale}", shape)

    def transpose(self) -> None:
        name = self.some(lambda shape: len(shape) == 2)
        if name is not None:
            self.put(f"{name}.T", self.pool[name][::-1])

    def slice(self) -> None:
        name = self.some(lambda shape: len(shape) in (1, 2))
        if name is None:
            return
        shape = self.pool[name]
        key = self.pick(
            ["1:", ":-1", "::2", "::-1", "0", "-1", "None"]
            if len(shape) == 1
            else [":, 0", "0", ":, 1:", "1:", ":, ::-1", "::2", ":, None, 0", ":, -1:", "0, 0"]
        )
        try:
            part = eval(f"x[{key}]", {"x": np.zeros(shape)})
        except IndexError:
            return
        if part.size:
            self.put(f"{name}[{key}]", part.shape)

    def reshape(self) -> None:
        name = self.some(lambda shape: len(shape) in (1, 2))
        if name is None:
            return
        shape = self.pool[name]
        if len(shape) == 1:
            target: Shape = self.pick([(shape[0], 1), (1, shape[0])])
            text = self.pick([f".reshape{target}", "[:, None]" if target[1] == 1 else "[None, :]"])
        else:
            target = (shape[0] * shape[1],)
            text = self.pick([".reshape(-1)", ".ravel()", ".flatten()"])
        self.put(f"{name}{text}", target)

    def write(self) -> None:
        """Write into an array, which others may be views of; the arguments stay as they are."""
        name = self.some(lambda shape: len(shape) > 0)
        if name is None:
            return
        shape = self.pool[name]
        fresh = f"t{len(self.lines)}"
        self.lines.append(f"{fresh} = {name}.copy()")
        self.pool[fresh] = shape
        view = f"t{len(self.lines)}"
        self.lines.append(f"{view} = {fresh}{self.pick(['.T', '[:1]', '[...]'])}")
        self.pool[view] = eval(
            f"x{self.lines[-1].split(fresh, 1)[1]}", {"x": np.zeros(shape)}
        ).shape
        self.unary()
        text = self.pick(
            [
                *["{0} += 1.0", "{0} *= 2.0", "{0}[0] = 0.25", "{1} -= 0.5", "{1}[...] = 1.0"],
                *["np.multiply({0}, 2.0, out={0})", "np.add({1}, 1.0, out={1})"],
                "{0}[{0} > 0] = 0.0",
            ]
        )
        self.lines.append(text.format(fresh, view))

    def branch(self) -> None:
        name = self.some()
        assert name is not None
        fresh = f"t{len(self.lines)}"
        shape = self.pool[name]
        self.lines.append(f"{fresh} = {name} * 2.0 if float(np.sum({name})) > 0 else {name} - 1.0")
        self.pool[fresh] = shape

    def sparse(self) -> None:
        """Use the sparse argument, which is m x n: by products, by elements, by sums."""
        kind = int(self.rng.integers(7))
        if kind < 2:
            text, rows, columns = [("S", self.m, self.n), ("S.T", self.n, self.m)][kind]
            right = self.some(lambda b: 0 < len(b) <= 2 and b[0] == columns)
            if right is not None:
                self.put(f"({text} @ {right}) * 0.3", (rows, *self.pool[right][1:]))
            return
        if kind == 2:
            left = self.some(lambda a: len(a) == 2 and a[1] == self.m)
            if left is not None:
                self.put(f"({left} @ S) * 0.3", (self.pool[left][0], self.n))
            return
        dense = self.some(lambda b: self._within(b))
        if dense is None or kind == 3:
            self.put(self.pick(["S.sum()", "(S * 0.5).sum()", "abs(S).power(2).sum()"]), ())
            return
        product = f"S.multiply({dense})"
        if kind == 4:
            self.put(f"{product}.sum()", ())
        elif kind == 5:
            self.put(f"{product}.toarray()", (self.m, self.n))
        else:
            right = self.some(lambda b: 0 < len(b) <= 2 and b[0] == self.n)
            if right is not None:
                self.put(f"({product} @ {right}) * 0.3", (self.m, *self.pool[right][1:]))

    def _within(self, shape: Shape) -> bool:
        try:
            return np.broadcast_shapes(shape, (self.m, self.n)) == (self.m, self.n)
        except ValueError:
            return False

    def odd(self) -> None:
        """Call what is left to NumPy, or composed of other functions."""
        name = self.some(lambda shape: len(shape) > 0)
        if name is None:
            return
        shape = self.pool[name]
        text = self.pick(
            [
                *["np.sort({}, axis=0)", "np.cumsum({}, axis=0)", "np.cbrt({})", "np.flip({})"],
                *["{}[np.arange({}.shape[0])]", "np.hypot({}, 1.0)", "{} // 1.0", "{} % 0.7"],
                *[
                    "np.roll({}, 1, axis=0)",
                    "np.flip({}, 0) * 2",
                    "np.round({}, 1)",
                    "np.trunc({})",
                ],
                *[
                    "np.nan_to_num({})",
                    "np.heaviside({}, 0.5)",
                    "np.fmax({}, {})",
                    "np.fmin({}, 0.3)",
                ],
                *["np.einsum('...,...->...', {}, {})", "{} - np.ptp({}, axis=0)"],
            ]
        )
        self.put(text.format(name, name), shape)


def sparse_array(rng: np.random.Generator, m: int, n: int, dtype: str) -> Any:
    """Return a sparse array or matrix in one of three formats; some have no entries."""
    import scipy.sparse as sp

    density = float(rng.choice([0.0, 0.05, 0.3, 1.0]))
    entries = sp.random_array((m, n), density=density, format="coo", rng=rng, dtype=dtype)
    entries.data[: entries.nnz // 8] = 0  # stored all the same
    if entries.nnz and rng.random() < 0.3:
        repeated = rng.integers(entries.nnz, size=3)  # twice at one place
        rows, columns = entries.coords
        entries = sp.coo_array(
            (
                np.r_[entries.data, entries.data[repeated]],
                (np.r_[rows, rows[repeated]], np.r_[columns, columns[repeated]]),
            ),
            shape=(m, n),
        )
    kind = "matrix" if rng.random() < 0.3 else "array"
    sparse_type = getattr(sp, f"{rng.choice(['csr', 'csr', 'csc', 'coo'])}_{kind}")
    return sparse_type(entries)


def random_case(seed: int) -> Case:
    """Return the case of a seed, one that NumPy runs: SciPy has a number where others have rows."""
    for attempt in range(10):
        case = _drawn(seed, np.random.default_rng([seed, attempt] if attempt else seed))
        try:
            with np.errstate(all="ignore"):
                case.function()(*case.inputs.values())
        except (IndexError, ValueError, TypeError):
            continue
        return case
    raise ValueError(f"seed {seed} draws nothing that runs")


def _drawn(seed: int, rng: np.random.Generator) -> Case:
    m = int(rng.choice([1, 2, 3, 7, 16, 33, 100, 260]))
    n = int(rng.choice([1, 2, 3, 5, 8, 17, 40]))
    k = int(rng.choice([1, 2, 3, 8]))
    writer = Writer(rng, m, n, k, str(rng.choice(["float64", "float64", "float32"])))
    possible: dict[str, Shape] = {
        "X": (m, n),
        "Y": (m, n),
        "Z": (m, n),
        "r": (n,),
        "R": (1, n),
        "c": (m,),
        "C": (m, 1),
        "s": (),
        "U": (m, k),
        "V": (n, k),
        "W": (n, n),
    }
    writer.input("X", possible["X"])
    for name in list(possible)[1:]:
        if rng.random() < 0.5:
            writer.input(name, possible[name])
    if rng.random() < 0.35:
        writer.inputs["S"] = sparse_array(rng, m, n, writer.dtype)
    for _ in range(int(rng.integers(2, 14))):
        writer.step()
    results = [name for name in writer.pool if name.startswith("t")][-4:] or ["X"]
    wanted = [name for name in results if rng.random() < 0.5] or [results[-1]]
    if rng.random() < 0.4:
        wanted = [f"np.sum({name})" for name in wanted]
    body = [f"    {line}" for line in writer.lines]
    body.append(f"    return ({', '.join(wanted)},)")
    source = f"def f({', '.join(writer.inputs)}):\n" + "\n".join(body) + "\n"
    return Case(seed, source, writer.inputs)
