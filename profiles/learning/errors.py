"""What keeps a command from learning."""

from ...catalog.errors import TensologError


class LearningError(TensologError):
    """Too little was measured to learn from, or what learns is not installed."""
