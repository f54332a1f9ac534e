"""Spark sessions: quiet, on loopback, with versions and Python workers that fit."""
