//! How large requests may be, and what hyper keeps of them.

pub(super) const MAX_HEADERS: usize = 64;
pub(super) const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The largest buffer that hyper reads into. The end of the longest head must fit.
pub(super) const MAX_BUFFER_BYTES: usize = 2 * MAX_HEAD_BYTES;
/// Hyper's buffer for the heads of answers.
const WRITE_BUFFER_BYTES: usize = 8 * 1024;
/// The most that hyper keeps for a connection, apart from bodies.
pub(super) const MAX_HYPER_BYTES: usize = MAX_BUFFER_BYTES + WRITE_BUFFER_BYTES;
