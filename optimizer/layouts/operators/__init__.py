"""What can be computed on blocked values, a family of operators a module."""
