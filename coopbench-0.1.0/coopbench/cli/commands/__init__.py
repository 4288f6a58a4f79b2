"""Commands: one module per group; each imports what it runs only when it is called."""
