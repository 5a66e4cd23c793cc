"""Small programs get kernels too."""

from tests.optimizer.fuse.small_programs import node_by_node, plan_small_programs_too

__all__ = ["node_by_node", "plan_small_programs_too"]
