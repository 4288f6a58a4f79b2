"""Certificates of the version 1 games: the search for rules, their figures, and the criteria."""

from studies.certificates.certify import PROTOCOL, certify, renewed

__all__ = ["PROTOCOL", "certify", "renewed"]
