"""Along which indices can an operator be cut, and which of these cuts are proved?

In go operators at known sizes; out come cuts. Begin at cuts.dl, which derives them from the facts
of index_facts.py; operator_cuts.py says what a part reads and is, cut_rules.py states each cut as a
rule and has it proved.
"""
