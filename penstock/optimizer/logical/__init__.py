"""Rules from logical plans to logical plans: what is asked, said in a way that takes less work."""
