"""What a rule goes through before it is admitted: checks, counterexamples, proof, record."""
