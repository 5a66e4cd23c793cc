"""What may change: substitutions as text, parsed, and compiled to Datalog."""
