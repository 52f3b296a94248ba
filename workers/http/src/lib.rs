//! Routes, tokens, streams and the web page. It must not decide state: a route decodes, calls the hub, encodes.
