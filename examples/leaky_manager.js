// The manager of manager.js with a leak: the slot of a store that failed is never given back.
//
//   evictable check "stdio:node examples/leaky_manager.js"
"use strict";
const { Manager, serve } = require("./manager.js");

class Leaky extends Manager {
  abort(key) {
    this.blocks.delete(key);
  }
}

module.exports = { Manager: Leaky };
if (require.main === module) serve(Leaky);
