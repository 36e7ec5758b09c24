//! The only authority on stock: the port, the batcher, the embedded engine, and the suite every engine passes.
