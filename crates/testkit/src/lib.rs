//! Real servers and real processes for tests, and an independent auditor.
