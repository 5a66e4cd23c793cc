"""What a rule goes through before it is admitted: checks, counterexamples, proof, record.

In goes a rule; out comes a verdict (verdict.py), and what the ledger keeps of it. Begin at
prove.py, which calls the others in order: static_checks.py, the prover, counterexample/, inference/
for what a rule lacks. floating/ measures what is proved of real numbers, and ledger/ records it.
parallel.py does that for many rules, quick_check.py all of it but the proof, mutation_campaign.py
for rules that are changed in one place.
"""
