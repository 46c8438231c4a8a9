"""Run the command line with ``python -m sr4mdl``."""

import sys

from sr4mdl.cli import main

sys.exit(main())
