"""Training a stack of layers over devices, from times that were measured for whole layers.

In go a profile of layers (layer_profile.py, as Metis writes it), a cluster and a batch; out comes a
pipeline: which layers are on which devices, and how a batch is divided. pipeline.py says what one
takes, pipeline_search.py finds the one that takes least. Begin there.

Plans for models whose operators are known, which is what inference needs, are made by
parallel/planning.py.
"""

from .layer_profile import LayerProfile, Run, read_metis
from .pipeline import Pipeline, Stage, StepTime, step_time
from .pipeline_search import PipelineSearch, best_pipeline

__all__ = [
    "LayerProfile",
    "Pipeline",
    "PipelineSearch",
    "Run",
    "Stage",
    "StepTime",
    "best_pipeline",
    "read_metis",
    "step_time",
]
