"""ONNX Runtime sessions: how models are opened, run and fed. Begin with `session.py`."""
