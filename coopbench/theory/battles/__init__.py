"""Certificates of battles: what blind play and scripts reach on each map."""
