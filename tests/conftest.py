"""Properties are checked on any machine, however busy: no example is judged by the time it takes."""

from hypothesis import HealthCheck, settings

settings.register_profile("resus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("resus")
