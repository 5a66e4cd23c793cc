"""Times of configurations beside the default, as the catalog has them of this machine."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ....profiles.machine import load_machine
from ....profiles.races.race import Lap
from .attention_configuration import AttentionConfiguration, AttentionSizes
from .convolution_configuration import ConvolutionConfiguration, ConvolutionSizes
from .loop_configuration import (
    CellConfiguration,
    CellSizes,
    ColumnConfiguration,
    ColumnSizes,
    LoopConfiguration,
    LoopSizes,
    RowConfiguration,
    RowSizes,
)
from .pair_configuration import PairConfiguration, PairSizes
from .processor import Processor
from .product_configuration import ProductConfiguration, ProductSizes

if TYPE_CHECKING:
    from ....catalog import Catalog

Sizes = TypeVar(
    "Sizes", bound=ProductSizes | ConvolutionSizes | PairSizes | AttentionSizes | LoopSizes
)
Configuration = TypeVar(
    "Configuration",
    bound=ProductConfiguration
    | ConvolutionConfiguration
    | PairConfiguration
    | AttentionConfiguration
    | LoopConfiguration,
)
# Families of kernels by what their sizes are, whose last field is the number of threads: a name,
# and what is chosen.
FAMILIES: dict[type[Any], tuple[str, type[Any]]] = {
    ProductSizes: ("product", ProductConfiguration),
    ConvolutionSizes: ("convolution", ConvolutionConfiguration),
    PairSizes: ("pair", PairConfiguration),
    AttentionSizes: ("attention", AttentionConfiguration),
    RowSizes: ("row", RowConfiguration),
    ColumnSizes: ("column", ColumnConfiguration),
    CellSizes: ("cell", CellConfiguration),
}


@dataclass(frozen=True)
class Timed:
    """The time of a configuration over that of the default, with its interval."""

    ratio: float
    ratio_low: float
    ratio_high: float

    @property
    def is_faster(self) -> bool:
        """Whether it is faster than the default, beyond noise."""
        return self.ratio_high < 1.0


class TimedConfigurations(Generic[Sizes, Configuration]):
    """What was timed of a family of kernels on this machine, for one level of instructions.

    Of several times of the same configuration the last one counts.
    """

    def __init__(self, catalog: Catalog, here: Processor, sizes: type[Sizes]) -> None:
        """Read what the catalog has of kernels of some sizes."""
        self.catalog, self.here = catalog, here
        self.family, configuration = FAMILIES[sizes]
        self._columns = tuple(field.name for field in fields(configuration))
        self.device_id = load_machine(catalog).device_id
        self.by_sizes: dict[Sizes, dict[Configuration, Timed]] = {}
        rows = catalog.connection.execute(
            f"SELECT sizes, threads, ratio, ratio_low, ratio_high, {', '.join(self._columns)}"
            " FROM kernel_configuration WHERE device_id = ? AND level = ? AND family = ?"
            " AND len(sizes) = ? ORDER BY measured_at",
            [self.device_id, here.level, self.family, len(fields(sizes)) - 1],
        ).fetchall()
        for numbers, threads, ratio, low, high, *chosen in rows:
            if not all(isinstance(number, int) and number > 0 for number in (*numbers, threads)):
                continue  # a catalog may come from a stranger
            of = self.by_sizes.setdefault(sizes(*(*numbers, threads)), {})
            of[configuration(*chosen)] = Timed(ratio, low, high)

    def best(self, sizes: Sizes) -> Configuration | None:
        """Return the fastest configuration known for some sizes, None where the default is."""
        faster = {
            configuration: timed
            for configuration, timed in self.timed(sizes).items()
            if timed.is_faster
        }
        return min(faster, key=lambda configuration: faster[configuration].ratio, default=None)

    def timed(self, sizes: Sizes) -> Mapping[Configuration, Timed]:
        """Return what was timed for some sizes."""
        return self.by_sizes.get(sizes, {})

    def store(self, sizes: Sizes, configuration: Configuration, lap: Lap, timed: Timed) -> None:
        """Note what a configuration takes, by itself and beside the default."""
        self.by_sizes.setdefault(sizes, {})[configuration] = timed
        if self.catalog.read_only:
            return
        self._store_processor()
        self.catalog.connection.execute(
            "INSERT INTO kernel_configuration (device_id, level, family, sizes, threads,"
            f" {', '.join(self._columns)}, median_ns, ratio, ratio_low, ratio_high, samples,"
            f" measured_at) VALUES ({', '.join('?' * (11 + len(self._columns)))})",
            [
                *(self.device_id, self.here.level, self.family),
                *([*astuple(sizes)[:-1]], astuple(sizes)[-1]),
                *astuple(configuration),
                *(lap.median_ns, *astuple(timed), lap.samples),
                datetime.datetime.now(datetime.UTC).replace(tzinfo=None),
            ],
        )

    def _store_processor(self) -> None:
        """Put the processor into the catalog, once for a machine and level."""
        row = [self.device_id, *vars(self.here).values()]
        self.catalog.connection.execute(
            "INSERT INTO processor SELECT ?, ?, ?, ?, ?, ? WHERE NOT EXISTS"
            " (FROM processor WHERE device_id = ? AND level = ?)",
            [*row, *row[:2]],
        )


def beside(lap: Lap, default: Lap) -> Timed:
    """Compare two laps of one race, whose ratios are to its reference: intervals add up."""
    ratio = lap.ratio / default.ratio
    spread, other = (
        (lap_.ratio_high - lap_.ratio_low) / (2 * lap_.ratio) for lap_ in (lap, default)
    )
    joint_spread = (spread**2 + other**2) ** 0.5
    return Timed(ratio, ratio / (1 + joint_spread), ratio * (1 + joint_spread))


def among(timed: Sequence[Timed]) -> Timed:
    """Return the same ratio of several races: its interval spans those of all."""
    return Timed(
        geometric_mean(ratio.ratio for ratio in timed),
        min(ratio.ratio_low for ratio in timed),
        max(ratio.ratio_high for ratio in timed),
    )
