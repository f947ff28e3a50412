// Stands for the parts of Grafana's pages that are not installed: every name is there, and does nothing.
"use strict";

const nothing = new Proxy(class {}, {
  get(target, name) {
    if (name === "prototype") return target.prototype;
    return name === Symbol.toPrimitive ? () => "" : nothing;
  },
  apply: () => nothing,
});

module.exports = nothing;
