"""The channels, one file each; a library is imported only when its channel is configured."""
