"""Learning Ψ from everyone, then Φ, Λ and β from episodes."""
