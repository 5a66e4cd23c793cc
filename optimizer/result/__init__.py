"""What an optimization gives: the winner made deliverable, recorded, summed up, and written.

In: the state after the last pass. Out: `Optimization`. Begin with `conclude.py`.
"""
