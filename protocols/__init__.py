"""Protocols as data: one TOML file each, never edited after release; instances beside them."""
