"""The reference engine: any plan over bounded input, answered straight from the definitions.

It is the oracle of every test: clarity over speed, one short function per node.
"""
