"""Rules that are found: programs enumerated over the specifications, equal ones proved as rules.

In: names of operators. Out: rules that the gate has proved, none derived by the others, and what
became of every candidate. Begin with run.py: choices.py says what operators leave to choose,
leaves.py which variables and constants there are, enumeration.py builds terms (terms.py) and
compares them by fingerprint.py, candidates.py orients what is equal and tells variables apart,
instances.py says which of these are instances of others, wording.py writes them in the rule
language, proving.py asks the gate, pairing.py makes rules of several outputs, findings.py says what
became of each candidate, and rows.py keeps all of it in the catalog. for_model.py does so for the
operators of a model.
"""

from .choices import UnknownOperatorError
from .findings import Finding, Generation
from .for_model import generate_for_model
from .run import generate

__all__ = ["Finding", "Generation", "UnknownOperatorError", "generate", "generate_for_model"]
