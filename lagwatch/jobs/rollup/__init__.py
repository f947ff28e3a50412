"""The job `rollup`: samples to 5 minutes, to hours, to days; files compacted, old days deleted."""
