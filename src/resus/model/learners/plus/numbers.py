"""Numbers that RESUS+ uses both in torch, where it learns, and in numpy, where it serves."""

UNKNOWN = -1.0  # the item of a row whose item was never seen; it equals no other
SIGNATURE_BITS = 24  # of each half of a context's signature: a float32 holds integers of this size
SIGNATURE_PRIME = 0x7FFFFFFF
SIGNATURE_BASES = (0x2F5C1A3B, 0x4D8E6F71)  # of polynomials in the ids of a context, one for each half
KNOTS = 8  # quantiles of a number; between two of them it belongs partly to each

SURE = 1e-9  # the smallest variance of a label: one so certain says nothing
FEW_CHOICES = 5.0  # κ: the sum over k choices is divided by √(k + κ)
FEW_VALUES = 2  # of a field in one row: these are compared one by one

PARABOLAS = 1  # steps of a fit that are safe far from the mode
ARRIVED = 1e-3  # a Newton step that moves no logit by more than this leaves less than its square to go
ROUNDING = 1e-9  # a smaller loss of likelihood counts as rounding
FLAT = 1e-6  # the smallest curvature of a Newton step
LONG = 512  # events; beyond, a system is solved without the matrix of all pairs of events
CLOSE = 1e-10  # relative: a smaller rest counts as solved
