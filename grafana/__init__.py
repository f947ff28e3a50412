"""Dashboards as code: `python -m grafana.build` writes them to `grafana/dashboards`."""
