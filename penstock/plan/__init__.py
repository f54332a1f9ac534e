"""The logical plan: frozen, validated nodes that say what is asked, not how it is done."""
