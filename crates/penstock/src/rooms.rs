//! Keeps the waiting rooms of an embedded shop: a small file for each sale in the data folder. They are on
//! the same disk as the journal, so a waiting room works whenever the shop can sell.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use penstock_domain::SaleId;
use penstock_gate::RoomState;
use penstock_shop::gate::RoomStore;

use crate::folder;

/// The folder exists, and is durable, since the data folder was opened.
#[derive(Debug)]
pub(crate) struct RoomFiles {
    folder: PathBuf,
}

impl RoomFiles {
    pub(crate) fn new(data: &Path) -> Self {
        Self { folder: data.join(folder::ROOMS_FOLDER) }
    }

    fn name(sale: SaleId) -> String {
        format!("{sale}.json")
    }
}

impl RoomStore for RoomFiles {
    fn load(&self, sale: SaleId) -> io::Result<Option<RoomState>> {
        match fs::read(self.folder.join(Self::name(sale))) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn save(&self, sale: SaleId, state: &RoomState) -> io::Result<()> {
        folder::write_durably(&self.folder, &Self::name(sale), &serde_json::to_vec(state)?, 0o600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::DataFolder;

    #[test]
    fn a_room_reads_back_as_written() {
        let place = tempfile::tempdir().unwrap();
        let _folder = DataFolder::open(place.path()).unwrap();
        let rooms = RoomFiles::new(place.path());
        let (sale, other) = (SaleId::from_random(1), SaleId::from_random(2));
        assert_eq!(rooms.load(sale).unwrap(), None);
        let state = RoomState { reserved: 77, early: Some(70), admitted: 3, ..RoomState::new([9; 32]) };
        rooms.save(sale, &state).unwrap();
        assert_eq!(rooms.load(sale).unwrap(), Some(state));
        assert_eq!(rooms.load(other).unwrap(), None);
    }

    #[test]
    fn a_damaged_room_is_an_error_instead_of_a_new_room() {
        let place = tempfile::tempdir().unwrap();
        let _folder = DataFolder::open(place.path()).unwrap();
        let rooms = RoomFiles::new(place.path());
        let sale = SaleId::from_random(1);
        rooms.save(sale, &RoomState::new([9; 32])).unwrap();
        fs::write(rooms.folder.join(RoomFiles::name(sale)), "{").unwrap();
        assert!(rooms.load(sale).is_err());
    }
}
