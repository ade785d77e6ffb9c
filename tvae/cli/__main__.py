"""`python -m tvae.cli` is the same as `tvae`."""

import sys

from tvae.cli import main

sys.exit(main())
