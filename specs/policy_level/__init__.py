"""Cache policies by themselves, held to the model of a policy: also by callers whose marks do not match."""
