//! Which cores the server and the generator of a run keep to, and how a run says so.

use std::fmt;

use anyhow::Context;

use crate::host;

/// `None`: wherever the scheduler puts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) server: Option<usize>,
    pub(super) generator: Option<usize>,
}

/// The first core for the server and the last for the generator: what one does is not charged to the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    pub(super) server: usize,
    pub(super) generator: usize,
}

impl Apart {
    pub(super) fn look() -> anyhow::Result<Self> {
        let cores = host::cores()?;
        let server = *cores.first().context("no core to run on")?;
        Ok(Self { server, generator: cores.last().copied().unwrap_or(server) })
    }

    pub(super) fn places(self) -> Places {
        Places { server: Some(self.server), generator: Some(self.generator) }
    }
}

impl Places {
    pub(super) const ANYWHERE: Self = Self { server: None, generator: None };

    /// The generator's, as its options want them.
    pub(super) fn generator_cores(self) -> Vec<usize> {
        self.generator.into_iter().collect()
    }
}

impl fmt::Display for Places {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |core: Option<usize>| core.map_or("any core".to_owned(), |core| format!("core {core}"));
        write!(formatter, "server on {}, generator on {}", words(self.server), words(self.generator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_said_in_words() {
        let places = Places { server: None, generator: Some(3) };
        assert_eq!(places.to_string(), "server on any core, generator on core 3");
        assert_eq!(places.generator_cores(), [3]);
        assert!(Places::ANYWHERE.generator_cores().is_empty());
    }
}
