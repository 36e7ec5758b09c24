//! Where a rehearsal gets its secrets, and what to do if the server does not know them: it is easy to forget
//! a variable that was exported for another server.

use penstock_rush::rehearsal::SecretOrigin;

use crate::{
    config::{Loaded, ValueSource},
    folder,
};

pub(crate) const ADMIN_TOKEN: &str = "identity.admin_token";
pub(crate) const JWT_SECRET: &str = "identity.jwt.secret";

/// A secret that is not configured comes from the demo's file.
pub(crate) fn of(loaded: &Loaded, setting: &'static str) -> SecretOrigin {
    let is_configured = match setting {
        ADMIN_TOKEN => loaded.config.identity.admin_token.get().is_some(),
        _ => loaded.config.identity.jwt.secret.get().is_some(),
    };
    if !is_configured {
        return SecretOrigin {
            place: loaded.config.data.join(folder::DEMO_FILE).display().to_string(),
            remedy: "another server may have been started there since: name its --data DIR or --config FILE"
                .to_owned(),
        };
    }
    let source = loaded.source(setting);
    let remedy = match source {
        ValueSource::Variable(name) => format!("`unset {name}`, or set it to what the server has"),
        _ => "name the --config FILE of the server that runs there".to_owned(),
    };
    SecretOrigin { place: source.to_string(), remedy }
}
