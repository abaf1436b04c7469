"""Events of other systems: whole tables into a store, and streams that never end."""
