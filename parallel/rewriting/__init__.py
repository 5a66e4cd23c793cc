"""Which program of all that proved rules lead to is the best one to divide, and how?

In go a workload and rules; out come programs, each a workload again, with divisions of their
operators. programs.py has all of them in one e-graph, division.py takes out the one of the least
sum of costs together with its divisions. Begin at joint.py.
"""
