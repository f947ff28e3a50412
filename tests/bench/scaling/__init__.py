"""A simulated group under an autoscaler."""
