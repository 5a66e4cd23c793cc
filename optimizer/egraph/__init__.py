"""The e-graph: all programs that the rules reach, side by side in columns, and the cheapest one."""
