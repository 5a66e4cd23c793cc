"""Programs over arrays: DAGs in the vocabulary of ONNX's operators, and what they mean.

Enters: nodes with shapes, types and layouts. Leaves: a program that computes the same with less, or
its values, by NumPy. Begin with dag.py.

    dag              Node and Program
    numpy_operators  what operators mean: ONNX's, and NumPy's that it lacks (operators.ops)
    kept_axes        which axis of a result is an axis of an operand
    evaluate         a program's values by NumPy and SciPy: the oracle of fused code
    value_rewrites   algebra before planning: powers, transposes, sums and chains of products
    rule_rewrites    the rules of the rule base applied to a program, as a graph of ONNX operators
    memory_pool      memory of results that are gone serves the next ones of their size
"""
