"""Which tests of kernels are of what is shipped, byte for byte: those that aren't named here."""

import pytest

VALUES_ALONE = (
    "test_attention",
    "test_columns",
    "test_convolution",
    "test_product",
    "test_regions",
    "test_untouched",
)


@pytest.fixture(autouse=True)
def values_alone(request):
    if request.path.stem.startswith(VALUES_ALONE):
        request.getfixturevalue("quickly_compiled")
