"""Runs: their names, sweeps of them, how they are made and measured, the ledger, released models."""
