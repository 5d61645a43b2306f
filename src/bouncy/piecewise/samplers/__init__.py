"""Samplers of continuous targets."""
