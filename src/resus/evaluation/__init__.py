"""How well a model serves new users, by the number of events it has seen of them."""
