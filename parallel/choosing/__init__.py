"""How a model is served on one machine: how many instances, threads, and rows of a batch.

In: a model. Out: a `Deployment`, a folder with the model and the plan. Begin at `deploy.py`. Of
whole models (`whole_model.py`) `choose.py` decides which settings are measured,
`ready_instances.py` measures them, and `batches.py` tells whether requests may be joined.
`over_devices.py` races plans of cuts (`division_plans.py`) against one instance and data
parallelism (`serving_race.py`).
"""
