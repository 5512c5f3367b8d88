"""Who calls: every way to produce calls feeds the same judge."""
