"""History in Elasticsearch 9: what every installation has, no licence, no plug-in.

```
store ── bulk ──┬─ documents   rows ⇄ JSON
      ├─ search ┘
      ├─ aggregate             buckets of a step
      ├─ indices               names, mappings, templates
      └─ rejected              what Elasticsearch will never take, with its reason
client ── deadline             one call, one deadline
faults                         what went wrong, in our words
```
"""

from lagwatch.history.elastic.bulk import RejectedRows
from lagwatch.history.elastic.store import ElasticStore

__all__ = ["ElasticStore", "RejectedRows"]
