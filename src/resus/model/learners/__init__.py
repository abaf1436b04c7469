"""Base-learners Λ: from the outcomes of one user's events to the residual of any query, in closed form.

A learner is a module with two answers, both exactly 0 where the support is empty:

    forward(support, mask, outcomes, query, query_user)    [U, S, K], [U, S], [U, S, …], [Q, K], [Q] → [Q]
    prefixes(support, mask, outcomes, query, sizes)        [U, S, K], [U, S], [U, S, …], [U, P, K] → [U, P, len(sizes)]

Column j of the second rests on the first sizes[j] events, of 1 to S. What an event's outcome is to the learner, it says
itself:

    outcomes(labels, basis)    [...], [...] → [...] or [..., C]
"""
