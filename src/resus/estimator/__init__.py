"""`Resus`: the whole method behind fit, evaluate, predict, save and load."""

from resus.estimator.resus import Resus

__all__ = ["Resus"]
