"""What is computed in blocks is compared with NumPy; without Dask there is nothing to test."""

import pytest

pytest.importorskip("dask", reason="values in blocks need Dask: pip install 'tensolog[dask]'")
