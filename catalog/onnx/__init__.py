"""ONNX models as rows of the catalog, without loss, and rows as ONNX models.

In: a file, bytes or a message (`source.py`), checked (`validation.py`) and stored (`reader.py`).
Out: equal models, small messages with large tensors beside them (`writer.py`, `files.py`).
"""
