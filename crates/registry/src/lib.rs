//! Projects, keys and agents: versioned state over the control topic.
