"""Finite queries on Spark, and what streams on Spark share with them."""
