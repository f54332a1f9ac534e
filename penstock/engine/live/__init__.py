"""Queries that come and go on an engine that goes on."""
