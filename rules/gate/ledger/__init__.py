"""What was found of each rule, kept with what that rests on.

In go verdicts; out come the rules that may be applied. Begin at ledger.py; fingerprints.py says
what voids an entry, renewal.py proves anew what is void, replay.py puts stored obligations to a
solver again, and proof_tables.py has the same as tables.
"""

from .ledger import Ledger, LedgerError, admitted, locked, shipped

__all__ = ["Ledger", "LedgerError", "admitted", "locked", "shipped"]
