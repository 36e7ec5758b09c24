//! Counts the memory of an answer's body from the moment hyper takes it until it is written. It does not know
//! what the body contains.

use std::sync::Arc;

use bytes::Bytes;

use crate::transport::pulse::Pulse;

/// Smaller bodies are not worth counting: any open connection takes more.
const MIN_BYTES: usize = 4 << 10;

/// Counts bytes that were made for this connection only. A shared body, such as a page, takes no extra memory
/// if this client does not read it.
pub(crate) fn count(bytes: Bytes, pulse: &Arc<Pulse>) -> Bytes {
    if bytes.len() < MIN_BYTES || !bytes.is_unique() {
        return bytes;
    }
    pulse.hold_body(bytes.len());
    Bytes::from_owner(Held { bytes, pulse: Arc::clone(pulse) })
}

struct Held {
    bytes: Bytes,
    pulse: Arc<Pulse>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.pulse.let_body_go(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_counts_until_it_is_dropped() {
        let pulse: Arc<Pulse> = Arc::default();
        let counted = count(vec![7; MIN_BYTES].into(), &pulse);
        assert_eq!((counted.len(), pulse.body_bytes()), (MIN_BYTES, MIN_BYTES));
        let rest = counted.slice(10..);
        drop(counted);
        assert_eq!(pulse.body_bytes(), MIN_BYTES, "the rest keeps all of it in memory");
        drop(rest);
        assert_eq!(pulse.body_bytes(), 0);
    }

    #[test]
    fn small_and_shared_bodies_do_not_count() {
        let pulse: Arc<Pulse> = Arc::default();
        let shared = Bytes::from(vec![7; MIN_BYTES]);
        let answers = [vec![7; MIN_BYTES - 1].into(), shared.clone(), Bytes::from_static(&[7; MIN_BYTES])];
        let answers = answers.map(|bytes| count(bytes, &pulse));
        assert_eq!(pulse.body_bytes(), 0);
        drop((shared, answers));
    }
}
