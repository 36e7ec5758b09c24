//! Assembles the embedded engine: everything in one process and one data folder.

use penstock_http::JsonScribe;
use penstock_ledger::{Precedence, embedded, take_precedence};
use penstock_settle::Settlement;
use penstock_shop::storefront::Storefront;
use tokio::sync::watch;

use crate::{
    clock, config::Config, database, demo::Demo, demo_file::DemoFile, folder::DataFolder, opened::Opened,
    options, rooms::RoomFiles, secrets,
};

/// Opens the folder and everything in it. Recovery goes on in the background.
pub(crate) async fn open(config: &Config, demo: bool) -> anyhow::Result<Opened> {
    let folder = DataFolder::open(&config.data)?;
    let clock = clock::system();
    let (told, secrets) = watch::channel(secrets::load(&config.identity, &config.data)?);
    if config.identity.secret.get().is_none() {
        tokio::spawn(secrets::watch_folder(config.data.clone(), told));
    }
    let mut http = options::server(config, secrets, clock.clone())?;
    http.shop.gate.room_store = std::sync::Arc::new(RoomFiles::new(&config.data));
    let demo = if demo {
        Some(Demo::prepare(&mut http, &config.data)?)
    } else {
        DemoFile::remove(&config.data)?;
        None
    };
    let storefront = Storefront::new(JsonScribe);
    let ledger = embedded::open(options::embedded(config), clock.clone(), storefront.clone())?;
    // The threads that are started from here on inherit it.
    take_precedence(Precedence::Settling);
    let records = database::open(config).await?;
    if let Some(demo) = &demo {
        demo.make_accounts(&records).await?;
    }
    let settlement = Settlement::new(ledger.clone(), records.clone(), clock, options::settle(config));
    http.shop.settlement = options::settlement_view(settlement.stats());
    let (settlement, folder) = (Some(settlement), Some(folder));
    Ok(Opened { http, storefront, ledger, records, settlement, demo, folder })
}
