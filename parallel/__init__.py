"""Which device computes what: plans for several devices.

In go a model and a description of devices (devices.py); out comes a plan. Begin at devices.py.
"""
