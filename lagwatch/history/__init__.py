"""The history: recorder → spool → writer → store, and the reader of the store."""
