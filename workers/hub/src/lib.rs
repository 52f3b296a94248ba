//! The truth: chat.db, the event journal and every decision about state. It must not speak HTTP, tmux or MCP.
