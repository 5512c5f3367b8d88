"""Contracts that CrossHair confirms: small functions, with what must hold of them in their docstrings (PEP 316).

`harnesses` holds them, `registry` says what each claims and up to which bound, and names a defect that each must
refute. Neither the model nor the built-in manager carries a contract, and no harness calls another: where a function
with a contract calls another one, CrossHair drops the paths that fail in the inner one and confirms what is wrong.
"""
