//! MCP: the worker that answers one agent's tool calls, and the stdio shim that its harness starts. It must not keep asks.
