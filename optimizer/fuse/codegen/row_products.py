"""Products of matrices in the text of a kernel over blocks of rows."""

from __future__ import annotations

from ...codegen.expressions import SUFFIXES, LoweringError
from ..program.dag import Node
from ..program.kept_axes import contracted_axes
from .row_state import RowState

# Elements of the longest vectors.
_LANES = {"64": 8, "32": 16}
# Rows from which on it is worth while to look ahead in a product, and the columns that it takes at
# a time.
_LONG = 64
_COLUMNS = 4
# Entries of a column that are added plainly: all that SciPy adds so, of a chunk fewer.
_PLAIN = 4096


class RowProducts(RowState):
    """Rows times what is the same for all of them, and products that are added up over the rows."""

    def _sparse_factor(self, node: Node, number: int) -> bool:
        """Whether a product reads a sparse operand's stored entries alone."""
        return node.op == "MatMul" and self._stored(number) and number == self._driver(node)

    def _stored(self, number: int) -> bool:
        """Whether a value is given in sparse form: one computed in here has rows with its zeros."""
        return number in self.inputs and self.node(number).layout != "dense"

    def _fetching(self) -> set[int]:
        """Return the long rows that a product with a narrow matrix reads first: it looks ahead."""
        read: set[int] = set()
        fetched: set[int] = set()
        for level in self.plan.levels:
            for group in level.groups.values():
                read.update(group.operands(self.plan.alias))
            for node in level.products:
                driver = self._driver(node)
                if self.partition.state[node.id] == "cell" and driver in self.inputs:
                    long, narrow = self.width(driver) >= _LONG, self.width(node.id) >= _COLUMNS
                    if long and narrow and driver not in read and not self._stored(driver):
                        fetched.add(driver)
                read.update(self._factors(node))
        return fetched

    def _adds_rarely(self, number: int) -> bool:
        """Whether a sparse operand's rows add so little to a column that this is done plainly.

        What plain sums are kept for in a chunk has the size of the result, however few rows it is
        made of; where these are of a few entries, it would be read and written more than they are.
        """
        entries = self.node(number).nnz
        return entries is not None and entries <= _PLAIN * self.width(number)

    def _following(self) -> dict[int, int]:
        """Return long rows that a product reads before they are summed up, and the first such sum.

        That sum looks ahead, too: memory rests while it reads what is in the caches by then.
        """
        multiplied: set[int] = set()
        following: dict[int, int] = {}
        for node in (node for level in self.plan.levels for node in level.products):
            driver = self._driver(node)
            is_dense = driver in self.inputs and not self._stored(driver)
            if self.partition.state[node.id] == "cell":
                multiplied.add(driver)
            elif driver in multiplied and is_dense and self.width(driver) >= _LONG:
                following.setdefault(driver, node.id)
        return following

    def _ahead(self, driver: int) -> str:
        """Return how far a product looks ahead: rows apart, or copied, aren't found there."""
        near = f"p{driver} > 0 && p{driver} < 2 * {self.size(self.width(driver))}"
        return f"t{driver} != b{driver} && {near} ? AHEAD : 0"

    def _factors(self, node: Node) -> list[int]:
        return [self.plan.alias.get(number, number) for number in node.inputs]

    def _driver(self, node: Node) -> int:
        """Return the operand whose rows a product takes one by one: a sparse one, the widest."""
        cells = [number for number in self._factors(node) if self.partition.state[number] == "cell"]
        sparse = [number for number in cells if self._stored(number)]
        return max(sparse or cells, key=self.width)

    def _product(self, node: Node) -> None:
        if node.dtype not in SUFFIXES or any(
            self.node(number).dtype != node.dtype for number in node.inputs
        ):
            raise LoweringError(f"MatMul (%{node.id}) of {node.dtype}")
        if self.partition.state[node.id] == "cell":
            self._times(node)
        else:
            self._gather(node)

    def _times(self, node: Node) -> None:
        """Rows times a matrix that is the same for all of them."""
        driver = self._driver(node)
        matrix_is_left = self.partition.state[node.inputs[0]] != "cell"
        other = node.inputs[0 if matrix_is_left else 1]
        first_operand = self.node(node.inputs[0])
        inner = first_operand.shape[contracted_axes(first_operand, self.node(node.inputs[1]))[0]]
        outer = self.width(node.id)
        by_rows, by_columns = ("turned", "whole") if matrix_is_left else ("whole", "turned")
        self._target(node.id)
        bits, k, n = self.bits(node.id), self.size(inner), self.size(outer)
        kind = self.c_type(node.id)
        if self._sparse_factor(node, driver):
            matrix = f"(const {kind} *){self.view(other, by_rows)}->data"
            view = self.view(driver, "sparse")
            if self.single:
                self.block.append(f"times_row_{bits}({view}, r0, {matrix}, t{node.id}, end - r0);")
                return
            self.block.append(
                f"times_csr_{bits}({view}, r0, {matrix}, t{node.id}, R, end - r0, {n});"
            )
            return
        wide = inner < 32 <= outer
        rows = f"t{driver}, p{driver}"
        if wide or outer == 1:
            matrix = f"(const {kind} *){self.view(other, by_rows if wide else by_columns)}->data"
            rows = f"{rows}, {matrix}, t{node.id}"
        if wide:
            self.block.append(f"spread_{bits}({rows}, R, {k}, {n});")
        elif outer == 1:
            self.block.append(f"dots_{bits}({rows}, 1, R, {k});")
        else:
            packed = f"m{node.id}"
            count = f"ALIGNED_{bits}({k}) * {n} + {k} * ALIGNED_{bits}({n})"  # either way
            self.scratch.append((packed, kind, count))
            view = self.view(other, "strided")
            column, along = ("row", "column") if matrix_is_left else ("column", "row")
            source = f"{view}->data, {view}->{column}, {view}->{along}"
            self.before.append(f"pack_{bits}({source}, {packed}, {k}, {n});")
            rows = f"{rows}, {packed}, t{node.id}"
            ahead = self._ahead(driver) if driver in self.unfetched else "0"
            beside = "0" if driver in self.following else ahead
            self.block.append(f"times_{bits}({rows}, R, {k}, {n}, {ahead}, {beside});")

    def _gather(self, node: Node) -> None:
        """Products of two rows each, added up over the rows."""
        long = self._driver(node)
        left, right = self._factors(node)
        short = right if long == left else left
        wide, narrow = self.width(long), self.width(short)
        sparse = self._sparse_factor(node, long)
        bits, target = self.bits(node.id), f"c{node.id}"
        # stored by the rows of the sparse operand, or with rows as long as the wide one's, which
        # begin where vectors do if there are several
        padded = wide if narrow == 1 else -(-wide // _LANES[bits]) * _LANES[bits]
        shape = (wide, narrow) if sparse else (narrow, padded)
        turned = (left == long) != sparse
        place = self._place(node.id, "product", shape, turned, None if sparse else wide)
        if sparse and bits == "64" and self._adds_rarely(long):
            self.opens.append(f"double *const {target} = {place};")
        else:
            self._sums(node, shape[0] * shape[1], place)
        rows = f"t{short}, p{short}, {target}, R"
        if sparse:
            view = self.view(long, "sparse")
            if self.single:
                self.block.append(f"gather_row_{bits}({view}, r0, *t{short}, {target});")
                return
            self.block.append(f"gather_csr_{bits}({view}, r0, {rows}, {self.size(narrow)});")
        elif wide == 1:
            call = f"dots_{bits}(t{long}, 0, t{short}, &d, 1, 1, R);"
            self.block.append(f"{{ {self.c_type(node.id)} d; {call} *{target} += d; }}")
        else:
            sizes = f"{self.size(wide)}, {self.size(narrow)}"
            rows = f"t{short}, p{short}, {target}, {self.size(padded)}, R"
            ahead = self._ahead(long) if self.following.get(long) == node.id else "0"
            self.block.append(f"gather_{bits}(t{long}, p{long}, {rows}, {sizes}, {ahead});")
