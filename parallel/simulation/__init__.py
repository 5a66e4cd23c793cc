"""What does a plan take, in time and memory?

In go a workload, a cluster and a division of each operator; out come times. placement.py says which
box of which tensor is where, tasks.py what has to be done. Begin at simulator.py.
"""
