"""Native operators inside ONNX models: kernels that any ONNX Runtime host loads as a library.

In: a plan. Out: plans in which regions that gain are one operator each, and the library of these
(`library.py`). Begin with `kernel_plans.py`; which nodes may be one region of cells is derived by
`regions/regions.dl`, and chosen in `grow.py`, `region_unions.py` and `fuse_graph.py`. What a kernel
is, and what each folder below does to make one, is in `kernel.py`.

| folder | the C text of |
|---|---|
| `loops/` | any region: loops over rows (`row_text.py`) or columns (`column_text.py`) |
| `convolution/`, `attention/`, `product/` | algorithms of their own, file by file |
| `quantized/` | products, convolutions and pools of 8-bit integers |
| `regions/` | none: which nodes one kernel may compute together |
| `recurrence/` | loops over steps that are written out: scans over time |
| `indexed/` | rows that are gathered and scattered by indices |
| `configurations/` | none: how loops are tiled, which kernels are told |
| `headers/` | what kernels call: fixed C |

`library.py` compiles them together. What C they have in common with the kernels of NumPy functions,
expressions, vectors' loops, units, is in `optimizer/codegen/`.
"""
