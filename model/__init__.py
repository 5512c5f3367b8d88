"""What is right: the executable specification of a reference-counted offload cache.

Pure and small: attrs and the standard library only, no input or output, no randomness.
"""
