//! `penstock tokens`: tokens of simulated buyers, for load tools that can't sign.

use penstock_rush::token::TokenSigner;

use crate::{cli::TokensArgs, clock, config::JwtSettings, output};

/// There is no secret that the server would accept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CannotSign {
    #[error(
        "there is no secret to sign with: give the server's identity.jwt.secret with --jwt-secret, \
         PENSTOCK_IDENTITY__JWT__SECRET or --config"
    )]
    NoSecret,
    #[error(
        "identity.jwt.public_key can check a shop's tokens but not sign them: let the shop sign them, or rehearse \
         with a server that has identity.jwt.secret instead"
    )]
    OnlyPublicKey,
}

pub(crate) fn print(jwt: &JwtSettings, args: &TokensArgs) -> anyhow::Result<()> {
    let secret = match (args.jwt_secret.as_deref().filter(|secret| !secret.is_empty()), jwt.secret.get()) {
        (Some(secret), _) | (None, Some(secret)) => secret,
        (None, None) if jwt.public_key.is_some() => return Err(CannotSign::OnlyPublicKey.into()),
        (None, None) => return Err(CannotSign::NoSecret.into()),
    };
    let now_seconds = u64::try_from(clock::now().as_millis() / 1_000).unwrap_or_default();
    let signer = TokenSigner::new(secret.as_bytes(), now_seconds.saturating_add(args.valid_seconds))
        .with_parties(jwt.issuer.clone(), jwt.audience.clone());
    let buyers = args.first..args.first.saturating_add(args.buyers);
    output::lines(buyers.map(|number| signer.token(&format!("load-{number:012}"))))
}
