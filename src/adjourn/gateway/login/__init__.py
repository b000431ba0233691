"""Logins of a person at servers that speak OAuth 2.1: obtained at a terminal, kept, renewed.

Owns: these logins. Must never: be loaded with the SDK on the way of a call.
"""
