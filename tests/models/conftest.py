import sys
from pathlib import Path

# The model zoo lies in benchmarks/, which is no part of the installed package.
sys.path.append(str(Path(__file__).resolve().parents[2]))
