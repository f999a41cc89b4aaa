"""Loaded by the fork server alone: the folder of a notebook that was killed goes with the server.

The server ends when its notebook does, however that ends, and before it has forked a rank, too.
"""

import atexit
import os
import shutil

FOLDER = "DTLIB_RANKS_FOLDER"

if folder := os.environ.get(FOLDER):
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
