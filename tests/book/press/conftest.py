"""These tests open pages with the tools of the tests one folder up."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
