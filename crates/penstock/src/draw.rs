//! `penstock draw verify`: recomputes a ticket's place from the published draw, for people who do not trust
//! the shop. It reads at most a file; it needs no server, data folder or key.

use std::{
    fs::File,
    io::{Read, stdin},
    path::Path,
};

use penstock_domain::SaleId;
use penstock_gate::{DRAW_ALGORITHM, Draw, commitment, ticket_number};
use serde::{Deserialize, Serialize};

use crate::{cli::VerifyDrawArgs, hexadecimal, output};

/// The JSON of a sale is a few kilobytes.
const MAX_SALE_BYTES: u64 = 1 << 20;

type Bytes32 = [u8; 32];

/// The input is not valid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusableDraw {
    #[error("{0:?} is not a ticket: a ticket is a number, a dot and 38 letters and digits")]
    Ticket(String),
    #[error("{name} has to be 64 hexadecimal digits, and {text:?} is not")]
    Hexadecimal { name: &'static str, text: String },
    #[error("{0:?} is not the id of a sale")]
    SaleId(String),
    #[error("the sale can't be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("the sale is not the JSON of GET /api/v1/sales/{{id}}: {0}")]
    NotASale(#[from] serde_json::Error),
    #[error("the sale has no waiting room, so nothing is drawn")]
    NoDraw,
    #[error("the sale's draw uses {0:?}, but this program only knows {DRAW_ALGORITHM:?}")]
    OtherAlgorithm(String),
    #[error("give the shop's answer with --sale, or give --seed, --count and --sale-id")]
    Nothing,
}

/// The input is valid, but the draw does not verify.
#[derive(Debug, thiserror::Error)]
enum NotVerified {
    #[error("the draw is not published yet: seed and count are published at the opening")]
    NotPublished,
    #[error(
        "the seed does NOT match the hash published before the opening: its SHA-256 is {actual}, and {promised} was \
         promised"
    )]
    OtherSeed { actual: String, promised: String },
}

/// The parts of a sale's JSON that are needed here.
#[derive(Deserialize)]
struct SaleJson {
    id: String,
    draw: Option<DrawJson>,
}

#[derive(Deserialize)]
struct DrawJson {
    algorithm: String,
    seed_sha256: String,
    seed: Option<String>,
    count: Option<u64>,
}

/// What was published of a draw.
struct Published {
    sale: SaleId,
    seed: Bytes32,
    count: u64,
    /// The hash that the shop published, and the one that the user wrote down.
    promises: Vec<Bytes32>,
}

#[derive(Debug, Serialize)]
struct Verified {
    verified: bool,
    /// The number of the ticket, from 0.
    ticket: u64,
    count: u64,
    /// True if the ticket took part in the draw; false if it was queued after it.
    drawn: bool,
    /// Counted from 1.
    place: u64,
    seed_sha256: String,
    /// True if the seed was compared with a hash.
    seed_compared: bool,
}

pub(crate) fn verify(args: &VerifyDrawArgs) -> anyhow::Result<()> {
    let ticket = ticket_number(&args.ticket).ok_or_else(|| UnusableDraw::Ticket(args.ticket.clone()))?;
    let published = published(args)?;
    let digest = commitment(&published.seed);
    if let Some(promised) = published.promises.iter().find(|promised| **promised != digest) {
        let (actual, promised) = (hexadecimal::text(&digest), hexadecimal::text(promised));
        return Err(NotVerified::OtherSeed { actual, promised }.into());
    }
    let place = Draw::new(&published.seed, published.sale, published.count).place(ticket);
    let verified = Verified {
        verified: true,
        ticket,
        count: published.count,
        drawn: ticket < published.count,
        // Internally, places count from 0.
        place: place.saturating_add(1),
        seed_sha256: hexadecimal::text(&digest),
        seed_compared: !published.promises.is_empty(),
    };
    output::result(args.json, &verified, || in_words(&verified))
}

fn published(args: &VerifyDrawArgs) -> anyhow::Result<Published> {
    let mut published = match (&args.sale, &args.sale_id, &args.seed, args.count) {
        (Some(file), ..) => published_in(&read(file)?)?,
        (None, Some(sale), Some(seed), Some(count)) => {
            Published { sale: sale_id(sale)?, seed: bytes("--seed", seed)?, count, promises: Vec::new() }
        }
        _ => return Err(UnusableDraw::Nothing.into()),
    };
    if let Some(promised) = &args.commitment {
        published.promises.push(bytes("--commitment", promised)?);
    }
    Ok(published)
}

fn published_in(sale: &SaleJson) -> anyhow::Result<Published> {
    let draw = sale.draw.as_ref().ok_or(UnusableDraw::NoDraw)?;
    if draw.algorithm != DRAW_ALGORITHM {
        return Err(UnusableDraw::OtherAlgorithm(draw.algorithm.clone()).into());
    }
    let promises = vec![bytes("draw.seed_sha256", &draw.seed_sha256)?];
    let (Some(seed), Some(count)) = (&draw.seed, draw.count) else {
        return Err(NotVerified::NotPublished.into());
    };
    Ok(Published { sale: sale_id(&sale.id)?, seed: bytes("draw.seed", seed)?, count, promises })
}

fn read(file: &Path) -> Result<SaleJson, UnusableDraw> {
    let mut text = String::new();
    if file == Path::new("-") {
        stdin().lock().take(MAX_SALE_BYTES).read_to_string(&mut text)?;
    } else {
        File::open(file)?.take(MAX_SALE_BYTES).read_to_string(&mut text)?;
    }
    Ok(serde_json::from_str(&text)?)
}

fn sale_id(text: &str) -> Result<SaleId, UnusableDraw> {
    text.parse().map_err(|_| UnusableDraw::SaleId(text.to_owned()))
}

fn bytes(name: &'static str, text: &str) -> Result<Bytes32, UnusableDraw> {
    let unusable = || UnusableDraw::Hexadecimal { name, text: text.to_owned() };
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() == 64).ok_or_else(unusable)?;
    Ok(std::array::from_fn(|index| (digits[2 * index] * 16 + digits[2 * index + 1]) as u8))
}

fn in_words(verified: &Verified) -> String {
    let Verified { ticket, count, place, seed_sha256, .. } = verified;
    let place = if verified.drawn {
        format!("ticket {ticket} of {count} has place {place} (1 is first)")
    } else {
        format!(
            "ticket {ticket} came after the opening: queued in order of arrival at place {place} (1 is first), behind \
             the {count} of the draw"
        )
    };
    if verified.seed_compared {
        format!("{place}; the seed matches the hash published before the opening")
    } else {
        format!("{place}; compare the hash published before the opening: it has to be {seed_sha256}")
    }
}
