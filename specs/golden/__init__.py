"""Golden traces: what is right in small worlds, as data, for implementations in any language."""
