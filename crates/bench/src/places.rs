//! The cores that the server and the generator of a run keep to, and their wording in the report.

use std::{fmt, path::Path};

use anyhow::Context;

use crate::host;

/// `None`: wherever the scheduler puts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) server: Option<usize>,
    pub(crate) generator: Option<usize>,
}

/// One core for the server and another for the generator, so that neither is charged for the other. The
/// server gets the core that handles its disk's interrupts: that work is the server's, and would disturb the
/// generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Apart {
    pub(crate) server: usize,
    pub(crate) generator: usize,
}

impl Apart {
    /// For servers with their data in `folder`.
    pub(crate) fn look(folder: &Path) -> anyhow::Result<Self> {
        Self::among(&host::cores()?, host::disk_core(folder)?).context("no core to run on")
    }

    fn among(cores: &[usize], disk: Option<usize>) -> Option<Self> {
        let server = disk.filter(|core| cores.contains(core)).or(cores.first().copied())?;
        let generator = cores.iter().rev().copied().find(|core| *core != server).unwrap_or(server);
        Some(Self { server, generator })
    }

    pub(crate) fn places(self) -> Places {
        Places { server: Some(self.server), generator: Some(self.generator) }
    }
}

impl Places {
    pub(crate) const ANYWHERE: Self = Self { server: None, generator: None };
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
    fn the_server_gets_the_core_that_serves_its_disk() {
        let among =
            |cores: &[usize], disk| Apart::among(cores, disk).map(|apart| (apart.server, apart.generator));
        assert_eq!(among(&[0, 1], Some(1)), Some((1, 0)));
        assert_eq!(among(&[0, 1, 2], Some(0)), Some((0, 2)));
        assert_eq!(among(&[0, 1], None), Some((0, 1)));
        assert_eq!(among(&[0, 1], Some(7)), Some((0, 1)), "a core we may not use");
        assert_eq!(among(&[3], Some(3)), Some((3, 3)));
        assert_eq!(among(&[], None), None);
    }

    #[test]
    fn places_are_said_in_words() {
        let places = Places { server: None, generator: Some(3) };
        assert_eq!(places.to_string(), "server on any core, generator on core 3");
    }
}
