import datetime

import pytest
from tensolog.catalog import Catalog
from tensolog.profiles.machine import identity

BANDWIDTH, PEAK = 1e11, 1e11


def add_device(catalog):
    """Give the catalog this machine's row, so that nothing is measured for it."""
    here = identity()
    catalog.connection.execute(
        "INSERT INTO device (fingerprint, name, cores, memory_bytes, instruction_set,"
        " bandwidth_bytes_per_s, peak_flops_per_s, measured_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            here.fingerprint,
            here.name,
            here.cores,
            here.memory_bytes,
            here.instruction_set,
            BANDWIDTH,
            PEAK,
            datetime.datetime(2026, 1, 1),
        ],
    )


@pytest.fixture
def catalog():
    with Catalog(":memory:") as in_memory:
        add_device(in_memory)
        yield in_memory
