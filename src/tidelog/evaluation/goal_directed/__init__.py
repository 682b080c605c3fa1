"""Evaluation for one goal: only facts that can be part of a proof of it are looked at.

What a goal needs is bounded twice. By value: the goal's constants are followed down through the
rules, argument by argument, and through joins with rigid inputs. By time: as for any query, and
within a window around the goal where only nearby proofs are looked for. The inputs are cut down to
that before anything else happens, and the ordinary engine does the rest.
"""
