"""The page at `/`: static files and the routes that serve them."""

from lagwatch_api.ui.routes import router

__all__ = ["router"]
