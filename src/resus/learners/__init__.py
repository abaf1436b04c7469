"""Base-learners Λ: from one user's support residuals to the residual of any query, in closed form.

A learner is a module with two answers, both exactly 0 where the support is empty:

    forward(support, mask, residuals, query, query_user)    [U, S, K], [U, S], [U, S], [Q, K], [Q] → [Q]
    prefixes(support, mask, residuals, query)               [U, S, K], [U, S], [U, S], [U, P, K] → [U, P, S]

Slot k - 1 of the second rests on the first k events.
"""
