"""RESUS+ without torch. It gives the numbers of the modules beside this folder.

A new term of the model is a new entry in `Fitted.said`.
"""
