"""Which device computes what: plans for several devices.

In go a model and a description of devices (devices.py); out comes a plan. Begin at devices.py.

On one machine a plan says how many instances, threads and rows: begin at deploy.py, which chooses
(choose.py) by measuring (crews.py), and at pool.py, which serves what was chosen.
"""
