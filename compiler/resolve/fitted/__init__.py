"""Sections of methods that are fitted on answers: abstentions, calibrators, probes."""
