"""Networks: trained policies as data, one kind of network per file."""
