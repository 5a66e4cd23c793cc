"""The e-graph: all programs that the rules reach, side by side in columns, and the cheapest one.

In: a graph, rules and prices. Out: plans, cheapest first. Begin with `search.py`: an e-graph
(`egraph.py`, its tables in `congruence.py`) grows in `saturation/`, is told what no rule says in
`derivations/`, and gives its cheapest program in `extraction/`, which `build.py` writes as a graph.
"""
