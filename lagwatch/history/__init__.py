"""The memory: recorder → spool → writer → store, and the reader back from there."""
