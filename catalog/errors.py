"""Errors a user can cause: one clear line that says what is wrong and what to do next."""


class TensologError(Exception):
    """Base of every error that is reported as one line and exit code 2."""


class CatalogError(TensologError):
    """The catalog file can't be opened, read or written."""


class ModelError(TensologError):
    """A model is missing, damaged, invalid or not supported."""


class TensologWarning(UserWarning):
    """Base of what a command tells in a line, and goes on."""


class CatalogWarning(TensologWarning):
    """What was measured is not in the catalog, or not yet; the result is what it would be."""
