"""What a term is: index notation, and how it is evaluated and computed with.

In: what an operator computes (catalog/operators/), or one side of a rule (rules/prover/), at known
ranks. Out: its value in any arithmetic, or its normal form. Begin at index_notation.py, which says
what terms are, what is inside of them, and how they are made and substituted. They are walked
through and evaluated by term_evaluator.py, in an arithmetic that a subclass gives; that of NumPy is
in numpy_evaluator.py. Sizes and indices are computed with as polynomials.py does; comparisons.py
says which comparisons there are. What is written in specifications and in rules, before anything is
known of ranks, is expressions: syntax_tree.py.
"""
