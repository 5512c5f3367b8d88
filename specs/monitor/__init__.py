"""A monitor for a live manager: every call judged while it runs, at a cost in the keys that the call touches.

`watch` puts it on, `Monitor.close` takes it off.
"""

from evictable.specs.monitor.inside import LEVELS
from evictable.specs.monitor.monitor import Monitor, Violation, watch

__all__ = ["LEVELS", "Monitor", "Violation", "watch"]
