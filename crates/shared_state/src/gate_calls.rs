//! The gate's calls to Redis: the keys of a sale's door, the arguments of each script, and its answers. Each
//! script says at its top what it does. When a script runs is decided elsewhere.

use penstock_domain::{BuyerId, SaleId, Timestamp};
use penstock_gate::{LivePasses, RoomView, Told, late_pass_millis};
use penstock_ledger::Clock;
use penstock_redis_client::{Link, LinkError, Script};
use penstock_shop::gate::{Applicant, DoorOptions, DoorRefusal};
use redis::{Cmd, FromRedisValue};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Enough that two buyers are never mistaken for each other.
const BUYER_BYTES: usize = 16;
/// How much longer a used challenge is remembered than it could be good.
const USED_SLACK_MILLIS: i64 = 60_000;

/// How long after its end a turn may still become a pass, because its node asked in time. The keeper of the
/// room keeps the place for longer than this.
const LATE_MILLIS: i64 = 1_000;

/// The first byte of a stored view, which changes with `RoomView`.
const VIEW_LAYOUT: u8 = 2;

/// A buyer's fingerprint among the live passes.
pub(crate) type BuyerMark = [u8; BUYER_BYTES];

pub(crate) fn mark_of(buyer: &BuyerId) -> BuyerMark {
    let digest = Sha256::digest(buyer.as_str());
    let mut mark = [0; BUYER_BYTES];
    mark.copy_from_slice(&digest[..BUYER_BYTES]);
    mark
}

/// The scripts of all doors.
#[derive(Clone, Debug)]
pub(crate) struct Scripts {
    room: Script,
    numbers: Script,
    tend: Script,
    passes: Script,
    used: Script,
}

impl Scripts {
    pub(crate) fn learnt_by(link: &Link) -> Self {
        let with_clock =
            |script: &str| Script::new(&format!("{}{script}", include_str!("scripts/clock.lua")));
        let scripts = Self {
            room: Script::new(include_str!("scripts/room.lua")),
            numbers: with_clock(include_str!("scripts/numbers.lua")),
            tend: with_clock(include_str!("scripts/tend.lua")),
            passes: with_clock(include_str!("scripts/passes.lua")),
            used: Script::new(include_str!("scripts/used.lua")),
        };
        for script in [&scripts.room, &scripts.numbers, &scripts.tend, &scripts.passes, &scripts.used] {
            link.learn(script);
        }
        scripts
    }
}

/// One sale's calls to Redis.
#[derive(Clone)]
pub(crate) struct GateCalls {
    pub(crate) link: Link,
    pub(crate) scripts: Scripts,
    pub(crate) node: String,
    /// Replaces the server's clock.
    pub(crate) moment: Option<Clock>,
    pub(crate) prefix: String,
    pub(crate) sale: SaleId,
}

impl std::fmt::Debug for GateCalls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("GateCalls").field("sale", &self.sale).finish_non_exhaustive()
    }
}

/// A block of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handed {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) is_early: bool,
    pub(crate) at: Timestamp,
    /// Earlier than `at` if the node asked for this block again.
    pub(crate) first_at: Timestamp,
}

/// SharedNumbers that may have been given out since this node last heard, besides as many again as it has heard of.
/// Nobody holds the numbers that were not given out, so skipping too many does no harm.
const NUMBERS_UNHEARD_OF: u64 = 1_000;
/// Views that may have been stored since this node last heard.
const VIEWS_UNHEARD_OF: u64 = 1_000;

/// What a node still knows about a room that Redis may have lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remembered {
    /// No number from here on can have been given out.
    pub(crate) next: u64,
    pub(crate) early: Option<u64>,
    /// Higher than the version of any view.
    pub(crate) version: u64,
    pub(crate) view: Option<RoomView>,
}

impl Remembered {
    /// `version` is that of the last view this node heard of.
    pub(crate) fn new(issued: u64, early: Option<u64>, version: u64, view: Option<RoomView>) -> Self {
        let next = issued.saturating_mul(2).saturating_add(NUMBERS_UNHEARD_OF);
        Self { next, early, version: version + VIEWS_UNHEARD_OF, view }
    }
}

/// What a node sends when it looks at a room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look<'a> {
    /// 0: this node does not keep the room.
    pub(crate) fence: u64,
    /// 0: this node does not want to keep it.
    pub(crate) keep_millis: u64,
    pub(crate) known_version: u64,
    pub(crate) view: Option<&'a RoomView>,
    /// How many of the taken turns the stored view covers.
    pub(crate) taken_done: usize,
    /// True: it is time to tell who is there, and for the keeper to hear it.
    pub(crate) asks_who_is_there: bool,
    pub(crate) told: Option<&'a Told>,
    /// A live pass with no more time left than this counts as late.
    pub(crate) late_pass_millis: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Follower,
    Keeper,
    /// This node took the room over with this look.
    NewKeeper,
}

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) role: Role,
    pub(crate) fence: u64,
    pub(crate) at: Timestamp,
    /// When the previous keeper last looked.
    pub(crate) kept_at: Timestamp,
    pub(crate) issued: u64,
    pub(crate) early: Option<u64>,
    pub(crate) live_passes: LivePasses,
    pub(crate) sale_version: u64,
    pub(crate) version: u64,
    /// None: this node has it already, or there is none.
    pub(crate) view: Option<RoomView>,
    pub(crate) taken: Vec<u64>,
    /// People who are there, by node. None: the look did not ask.
    pub(crate) told: Option<Vec<Told>>,
}

impl GateCalls {
    fn key(&self, what: &str) -> String {
        format!("{}{{{}}}:{what}", self.prefix, self.sale)
    }

    fn keys<const COUNT: usize>(&self, what: [&str; COUNT]) -> [String; COUNT] {
        what.map(|what| self.key(what))
    }

    fn moment(&self) -> String {
        self.moment.as_ref().map(|clock| clock().as_millis().to_string()).unwrap_or_default()
    }

    /// `confirm`: wait for the replicas, so that the answer survives the loss of the server.
    async fn ask<T: FromRedisValue>(&self, command: Cmd, confirm: bool) -> Result<T, LinkError> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(command);
        let key = self.key("room");
        let value = self.link.run(&key, pipeline, confirm).await?.into_iter().next();
        let refused = |reason: String| LinkError::Refused { server: key.clone(), reason };
        let value = value.ok_or_else(|| refused("no answer".to_owned()))?;
        let value = value.extract_error().map_err(|error| refused(error.to_string()))?;
        redis::from_redis_value(value).map_err(|error| refused(error.to_string()))
    }

    fn damaged(&self, what: &str) -> LinkError {
        let reason = format!("{what} of the waiting room can't be read");
        LinkError::Refused { server: self.key("room"), reason }
    }

    /// Two seeds are two draws, and only one was promised.
    pub(crate) fn other_seed(&self) -> LinkError {
        let reason = "the waiting room has another seed than this node".to_owned();
        LinkError::Refused { server: self.key("room"), reason }
    }

    /// None: Redis does not know the room.
    pub(crate) async fn seed(&self) -> Result<Option<[u8; 32]>, LinkError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.key("room")).arg("seed");
        let seed: Option<Vec<u8>> = self.ask(command, false).await?;
        seed.map(|seed| seed.try_into().map_err(|_| self.damaged("the seed"))).transpose()
    }

    /// Returns the seed of the existing room, or makes a room with the given seed.
    pub(crate) async fn room(
        &self,
        seed: [u8; 32],
        opens_at: Option<Timestamp>,
        remembered: &Remembered,
    ) -> Result<[u8; 32], LinkError> {
        let view = packed_view(remembered.view.as_ref())?;
        let early = remembered.early.map(|early| early.to_string()).unwrap_or_default();
        let opens_at_millis = opens_at.map_or(0, Timestamp::as_millis);
        let mut command = self.scripts.room.call();
        command.arg(1).arg(self.key("room")).arg(&seed[..]).arg(opens_at_millis);
        command.arg(remembered.next).arg(early).arg(remembered.version).arg(view);
        let seed: Vec<u8> = self.ask(command, true).await?;
        seed.try_into().map_err(|_| self.damaged("the seed"))
    }

    /// The block of this name; a new one has `count` numbers. None: Redis does not know the room.
    pub(crate) async fn numbers(
        &self,
        seed: &[u8; 32],
        name: u64,
        count: u64,
    ) -> Result<Option<Handed>, LinkError> {
        let mut command = self.scripts.numbers.call();
        command.arg(1).arg(self.key("room")).arg(self.moment()).arg(count);
        command.arg(&seed[..]).arg(&self.node).arg(format!("{name:016x}"));
        let handed: Option<(u64, u64, u8, i64, i64)> = self.ask(command, true).await?;
        Ok(handed.map(|(from, to, early, at, first_at)| Handed {
            from,
            to,
            is_early: early == 1,
            at: Timestamp::from_millis(at),
            first_at: Timestamp::from_millis(first_at),
        }))
    }

    /// None: Redis does not know the room.
    pub(crate) async fn tend(&self, seed: &[u8; 32], look: &Look<'_>) -> Result<Option<Seen>, LinkError> {
        let mut command = self.scripts.tend.call();
        command.arg(4).arg(&self.keys(["room", "passes", "taken", "there"]));
        command.arg(self.moment()).arg(&self.node).arg(look.fence).arg(look.keep_millis);
        command.arg(look.known_version).arg(packed_view(look.view)?).arg(look.taken_done).arg(&seed[..]);
        command.arg(u8::from(look.asks_who_is_there)).arg(packed(look.told)?);
        command.arg(look.late_pass_millis);
        // Followers show people this answer, just as the keeper does, so it has to be confirmed.
        let seen: Option<SeenReply> = self.ask(command, true).await?;
        seen.map(|seen| self.seen(seen)).transpose()
    }

    fn seen(&self, reply: SeenReply) -> Result<Seen, LinkError> {
        let (role, fence, at, kept_at, issued, early, (all, late), sale_version, version, view, taken, told) =
            reply;
        // A view or a list that can't be read comes from a node of another version. For this node there is no
        // view, and nobody is there.
        let view: Vec<u8> = view;
        let view = match view.split_first() {
            Some((&VIEW_LAYOUT, view)) => postcard::from_bytes(view).ok(),
            _ => None,
        };
        let read = |told: &Vec<u8>| postcard::from_bytes(told).ok();
        Ok(Seen {
            role: match role {
                0 => Role::Follower,
                1 => Role::Keeper,
                _ => Role::NewKeeper,
            },
            fence,
            at: Timestamp::from_millis(at),
            kept_at: Timestamp::from_millis(kept_at),
            issued,
            early: u64::try_from(early).ok(),
            live_passes: LivePasses { all, late },
            sale_version,
            version,
            view,
            taken,
            told: told.map(|told| told.iter().filter_map(read).collect()),
        })
    }

    /// The live passes, and an answer for each applicant.
    pub(crate) async fn passes(
        &self,
        options: &DoorOptions,
        applicants: &[&Applicant],
    ) -> Result<(u64, Vec<Result<Timestamp, DoorRefusal>>), LinkError> {
        let challenge_millis = i64::from(options.challenge_seconds) * 1_000;
        let mut keys = self.keys(["passes", "turns", "taken"]).to_vec();
        // Counted from 1, as Lua does; 0 means none.
        let used_keys: Vec<usize> = applicants
            .iter()
            .map(|applicant| {
                let issued_at = applicant.challenge.map(|challenge| challenge.issued_at.as_millis());
                let set = issued_at.map(|millis| millis.div_euclid(challenge_millis.max(1)));
                set.map_or(0, |set| 1 + place_of(&mut keys, self.key(&format!("used:{set}"))))
            })
            .collect();
        let mut command = self.scripts.passes.call();
        command.arg(keys.len()).arg(keys).arg(self.moment());
        command.arg(u64::from(options.head.pass_seconds) * 1_000).arg(options.head.factor);
        command.arg(late_pass_millis(options.head.pass_seconds));
        command.arg(options.head.max_live).arg(options.max_used_challenges);
        command.arg(challenge_millis + USED_SLACK_MILLIS);
        for (applicant, used_key) in applicants.iter().zip(used_keys) {
            let number = applicant.number.map(|number| number.to_string()).unwrap_or_default();
            let challenge = applicant.challenge;
            let fingerprint = challenge.map_or([0; 8], |challenge| challenge.fingerprint.to_be_bytes());
            let turn_until = applicant.turn_until.map(|until| until.plus_millis(LATE_MILLIS).as_millis());
            command.arg(&mark_of(&applicant.buyer)[..]).arg(number).arg(applicant.available);
            command.arg(used_key).arg(&fingerprint[..]);
            command.arg(u8::from(challenge.is_some_and(|challenge| challenge.is_met)));
            command.arg(turn_until.map(|millis| millis.to_string()).unwrap_or_default());
        }
        let answers: Vec<i64> = self.ask(command, false).await?;
        let live = answers.get(1).copied().unwrap_or(0).max(0) as u64;
        Ok((live, answers.into_iter().skip(2).map(pass_answer).collect()))
    }

    /// The live passes that remain.
    pub(crate) async fn used(&self, sale_version: u64, buyers: &[BuyerMark]) -> Result<u64, LinkError> {
        let mut command = self.scripts.used.call();
        command.arg(2).arg(&self.keys(["passes", "room"])).arg(sale_version);
        for buyer in buyers {
            command.arg(&buyer[..]);
        }
        self.ask(command, false).await
    }
}

type SeenReply = (u8, u64, i64, i64, u64, i64, (u64, u64), u64, u64, Vec<u8>, Vec<u64>, Option<Vec<Vec<u8>>>);

/// The position of the key in `keys`; adds it if it is missing.
fn place_of(keys: &mut Vec<String>, key: String) -> usize {
    keys.iter().position(|known| *known == key).unwrap_or_else(|| {
        keys.push(key);
        keys.len() - 1
    })
}

/// None becomes an empty value.
fn packed<T: Serialize>(value: Option<&T>) -> Result<Vec<u8>, LinkError> {
    let packed = value.map(postcard::to_stdvec).transpose();
    Ok(packed.map_err(|error| LinkError::Misconfigured(error.to_string()))?.unwrap_or_default())
}

fn packed_view(view: Option<&RoomView>) -> Result<Vec<u8>, LinkError> {
    let mut view = packed(view)?;
    if !view.is_empty() {
        view.insert(0, VIEW_LAYOUT);
    }
    Ok(view)
}

/// The numbers are those in `passes.lua`.
fn pass_answer(answer: i64) -> Result<Timestamp, DoorRefusal> {
    Err(match answer {
        -1 => DoorRefusal::TurnUsed,
        -2 => DoorRefusal::Exhausted,
        -3 => DoorRefusal::TooManyPasses,
        -4 => DoorRefusal::ChallengeFailed,
        -5 => DoorRefusal::TooManyChallenges,
        -6 => DoorRefusal::TurnOver,
        deadline => return Ok(Timestamp::from_millis(deadline)),
    })
}
