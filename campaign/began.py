"""Imported by a command through TVAE_PLUGINS: says, by a file, that the command has begun."""

import os
from pathlib import Path

Path(os.environ["CAMPAIGN_MARK"]).touch()
