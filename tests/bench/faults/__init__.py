"""Faults of real consumers and producers, injected on a real broker, each with its true cause."""
