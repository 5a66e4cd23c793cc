"""What a rule goes through before it is admitted: checks, counterexamples, proof, record.

In goes a rule; out comes a verdict (verdict.py), and what the ledger keeps of it. Begin at gate.py:
`prove_rule` calls the others in order, static_checks.py, the prover, counterexample/, inference/
for what a rule lacks, and says why a rule is not proved; why a statement isn't, the prover says.
floating/ measures what is proved of real numbers, and ledger/ records it. prover_pool.py does that
for many rules, quick_check.py all of it but the proof, mutation_campaign.py for rules that are
changed in one place.
"""
