"""Networks: trained policies as data."""
