//! API v1: handlers, identity, errors, metrics, OpenAPI, and the server.
