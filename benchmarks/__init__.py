"""Measurements of Penstock beside other systems; every number is taken from answers that agree."""
