//! Assembly: from a configuration to a running node.
