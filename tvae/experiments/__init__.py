"""What the chapters use, without a promise of stability: import it to follow them, not to build on it."""
