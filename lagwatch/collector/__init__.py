"""The collector process of one cluster, and on the serving side its supervisor and link.

Imports nothing itself: the serving side takes `supervisor` without ever loading the client library.
"""
