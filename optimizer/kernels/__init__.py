"""Fused operators inside ONNX models: kernels that any ONNX Runtime host loads as a library."""
