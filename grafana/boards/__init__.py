"""One dashboard a module; each has a function `dashboard()`."""
