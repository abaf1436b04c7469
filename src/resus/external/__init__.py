"""Models of the user's own: a function, an estimator or a model file scores raw rows and writes a column of logits.

The column is a numeric field like any other: the rest of the code reads the field and never sees the model.
"""
