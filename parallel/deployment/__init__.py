"""How a model is served, as it is written: a folder with the model, its setting, and why.

In: what was chosen and measured (choosing/). Out: a folder that serving/ opens, and rows of the
catalog. Begin at deployment.py; settings.py says what a setting, a goal and a limit are.
"""
