"""Playing: a protocol and policies become cells, and cells become episodes."""
