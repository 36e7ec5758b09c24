//! Challenges: a proof of work, or a picture to read. A challenge is described by its signed id, so giving
//! one out costs no memory; only redeemed ones are remembered. This module knows no pictures and no passes.
//! The format of an id is in `challenge_id`.

use std::array;

use penstock_domain::{BuyerId, SaleId, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::{
    challenge_id::{
        CAPTCHA, CAPTCHA_BYTES, Challenge, HEAD_BYTES, MAX_ID_BYTES, PROOF_OF_WORK, Task, encode, head,
    },
    event_rate::EventRate,
    keys::{KEY_ID_BYTES, KeyRing, Purpose, Signature, TAG_BYTES, sale_bytes},
    steady_time::SteadyTime,
    used::{Marked, Used},
};

/// The longest answer.
pub const MAX_ANSWER_BYTES: usize = 64;
/// The extra bits of a proof of work that stands in for a captcha.
const HARDER_BITS: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChallengeOptions {
    /// How long a challenge is good.
    pub lifetime_seconds: u32,
    /// The difficulty in quiet times.
    pub min_bits: u8,
    /// The highest difficulty.
    pub max_bits: u8,
    /// Up to this many challenges per second count as quiet times. Each doubling beyond adds a bit.
    pub easy_per_second: u32,
    /// The most redeemed challenges that are remembered.
    pub max_used: usize,
    /// Drawn at random for each run of the process. Challenges from another run are refused, because nobody
    /// remembers whether they were redeemed.
    pub instance: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeRefusal {
    /// One message for every cause, so that nobody learns from it.
    #[error("the challenge was not met, is not valid, or was used before")]
    Failed,
    #[error("the memory for redeemed challenges is full; try again later")]
    Full,
}

/// Find a text for which `solves(salt, text, difficulty)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofOfWork {
    pub id: String,
    pub salt: String,
    pub difficulty: u8,
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptchaChallenge {
    pub id: String,
    pub expires_at: Timestamp,
}

/// A genuine challenge presented by its buyer, with an answer. It counts only once it is marked as used, so
/// that nobody can try many answers at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presented {
    /// A part of its signature, unique to this challenge.
    pub fingerprint: u64,
    pub issued_at: Timestamp,
    /// Must stay hidden until the challenge is marked as used.
    pub is_met: bool,
    presented_at: Timestamp,
}

/// Whether the SHA-256 of the salt followed by the answer starts with `difficulty` zero bits.
pub fn solves(salt: &str, answer: &str, difficulty: u8) -> bool {
    if answer.len() > MAX_ANSWER_BYTES {
        return false;
    }
    let digest = Sha256::new().chain_update(salt).chain_update(answer).finalize();
    let zero_bytes = digest.iter().take_while(|byte| **byte == 0).count();
    let zero_bits = zero_bytes * 8 + digest.get(zero_bytes).map_or(0, |byte| byte.leading_zeros() as usize);
    zero_bits >= usize::from(difficulty)
}

#[derive(Debug)]
pub struct Challenges {
    options: ChallengeOptions,
    instance: [u8; 8],
    /// Times in ids, in the rate and in the redeemed challenges use this clock. If the system clock is set
    /// back, nothing becomes good again, and nothing new is mistaken for old.
    time: SteadyTime,
    used: Used,
    issued: EventRate,
}

impl Challenges {
    pub fn new(options: ChallengeOptions) -> Self {
        let used = Used::new(options.lifetime_seconds, options.max_used);
        let instance = options.instance.to_be_bytes();
        Self { options, instance, time: SteadyTime::default(), used, issued: EventRate::new() }
    }

    /// `nonce` is random. `harder` is for people who choose this instead of a captcha.
    pub fn proof_of_work(
        &self,
        keys: &KeyRing,
        sale: SaleId,
        buyer: &BuyerId,
        harder: bool,
        nonce: u64,
        now: Timestamp,
    ) -> ProofOfWork {
        let issued_at = self.time.advance(now);
        let difficulty = self.difficulty_of(self.issued.count(issued_at));
        let extra = if harder { HARDER_BITS } else { 0 };
        let difficulty = difficulty.saturating_add(extra).min(self.options.max_bits);
        let fields = head(PROOF_OF_WORK, difficulty, nonce, issued_at);
        let signature = keys.sign(Purpose::Challenge, &self.message(&sale_bytes(sale), &fields, buyer));
        let expires_at = self.expires_at(now);
        ProofOfWork { id: encode(&fields, &signature), salt: salt(&signature), difficulty, expires_at }
    }

    /// `nonce` is random; `answer` is what the picture shows.
    pub fn captcha(
        &self,
        keys: &KeyRing,
        sale: SaleId,
        buyer: &BuyerId,
        answer: &str,
        nonce: u64,
        now: Timestamp,
    ) -> CaptchaChallenge {
        let issued_at = self.time.advance(now);
        self.issued.count(issued_at);
        let head = head(CAPTCHA, 0, nonce, issued_at);
        let (sale, answer) = (sale_bytes(sale), as_compared(answer));
        let answer_signature = keys.sign(Purpose::CaptchaAnswer, &answer_message(&sale, &head, &answer));
        let mut fields = [0; CAPTCHA_BYTES];
        fields[..HEAD_BYTES].copy_from_slice(&head);
        // The same key signs the whole id, so the key's id is not repeated here.
        fields[HEAD_BYTES..].copy_from_slice(&answer_signature[KEY_ID_BYTES..]);
        let signature = keys.sign(Purpose::Challenge, &self.message(&sale, &fields, buyer));
        CaptchaChallenge { id: encode(&fields, &signature), expires_at: self.expires_at(now) }
    }

    /// Refuses forged and expired challenges and those of other buyers. Does not check whether it was used.
    pub fn present(
        &self,
        keys: &KeyRing,
        sale: SaleId,
        buyer: &BuyerId,
        id: &str,
        answer: &str,
        now: Timestamp,
    ) -> Result<Presented, ChallengeRefusal> {
        let mut buffer = [0; MAX_ID_BYTES];
        let challenge = Challenge::read(id, &mut buffer).ok_or(ChallengeRefusal::Failed)?;
        let sale = sale_bytes(sale);
        let message = self.message(&sale, challenge.fields, buyer);
        let is_signed = keys.verifies(Purpose::Challenge, &message, challenge.signature);
        let (issued_at, presented_at) = (challenge.issued_at, self.time.advance(now));
        if !is_signed || presented_at >= self.expires_at(issued_at) {
            return Err(ChallengeRefusal::Failed);
        }
        let is_met = is_met(&challenge, keys, &sale, answer);
        Ok(Presented { fingerprint: challenge.fingerprint(), issued_at, is_met, presented_at })
    }

    /// A challenge can be redeemed once, if one process remembers all redeemed ones. A wrong answer uses it
    /// up.
    pub fn redeem(&self, presented: &Presented) -> Result<(), ChallengeRefusal> {
        match self.used.mark(presented.fingerprint, presented.issued_at, presented.presented_at) {
            Marked::First if presented.is_met => Ok(()),
            Marked::First | Marked::Again => Err(ChallengeRefusal::Failed),
            Marked::Full => Err(ChallengeRefusal::Full),
        }
    }

    /// The difficulty of a proof of work given out now.
    pub fn difficulty(&self, now: Timestamp) -> u8 {
        self.difficulty_of(self.issued.per_second(self.time.advance(now)))
    }

    fn difficulty_of(&self, per_second: f64) -> u8 {
        let options = &self.options;
        let times_easy = (per_second / f64::from(options.easy_per_second.max(1))) as u32;
        let doublings = times_easy.checked_ilog2().unwrap_or(0) as u8;
        options.min_bits.saturating_add(doublings).min(options.max_bits)
    }

    fn expires_at(&self, issued_at: Timestamp) -> Timestamp {
        issued_at.plus_seconds(self.options.lifetime_seconds)
    }

    /// The first field is the kind, which fixes the length of the fields. Only the buyer's length varies, so
    /// no two messages are the same bytes.
    fn message<'a>(&'a self, sale: &'a [u8; 8], fields: &'a [u8], buyer: &'a BuyerId) -> [&'a [u8]; 4] {
        [sale, &self.instance, fields, buyer.as_str().as_bytes()]
    }
}

fn is_met(challenge: &Challenge<'_>, keys: &KeyRing, sale: &[u8; 8], answer: &str) -> bool {
    match challenge.task {
        Task::ProofOfWork { difficulty } => solves(&salt(challenge.signature), answer, difficulty),
        Task::Captcha { .. } if answer.len() > MAX_ANSWER_BYTES => false,
        Task::Captcha { answer_tag } => {
            let mut answer_signature = *challenge.signature;
            answer_signature[KEY_ID_BYTES..].copy_from_slice(answer_tag);
            let answer = as_compared(answer);
            let message = answer_message(sale, challenge.head, &answer);
            keys.verifies(Purpose::CaptchaAnswer, &message, &answer_signature)
        }
    }
}

/// The nonce in the head makes two challenges with the same answer look different.
fn answer_message<'a>(sale: &'a [u8; 8], head: &'a [u8; HEAD_BYTES], answer: &'a str) -> [&'a [u8]; 3] {
    [sale, head, answer.as_bytes()]
}

/// Upper and lower case count as the same.
fn as_compared(answer: &str) -> String {
    answer.trim().to_lowercase()
}

/// The tag of the signature in hexadecimal digits. Nobody knows it before the challenge is given out.
fn salt(signature: &Signature) -> String {
    let tag: [u8; TAG_BYTES] = array::from_fn(|place| signature[KEY_ID_BYTES + place]);
    format!("{:032x}", u128::from_be_bytes(tag))
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use std::{
        sync::{
            Barrier,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        thread,
    };

    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const LIFETIME_SECONDS: u32 = 120;
    const OPTIONS: ChallengeOptions = ChallengeOptions {
        lifetime_seconds: LIFETIME_SECONDS,
        min_bits: 4,
        max_bits: 10,
        easy_per_second: 100,
        max_used: 1_000,
        instance: 5,
    };
    const FAILED: Result<(), ChallengeRefusal> = Err(ChallengeRefusal::Failed);

    fn ring() -> KeyRing {
        KeyRing::new(&[7; 32], None)
    }

    fn sale() -> SaleId {
        SaleId::from_random(42)
    }

    fn ann() -> BuyerId {
        BuyerId::from_stored("ann")
    }

    fn proof_of_work(challenges: &Challenges, nonce: u64) -> ProofOfWork {
        challenges.proof_of_work(&ring(), sale(), &ann(), false, nonce, START)
    }

    fn captcha(challenges: &Challenges, nonce: u64) -> CaptchaChallenge {
        challenges.captcha(&ring(), sale(), &ann(), "KdM7x", nonce, START)
    }

    impl Challenges {
        fn redeem_as(
            &self,
            keys: &KeyRing,
            (sale, buyer): (SaleId, &BuyerId),
            id: &str,
            answer: &str,
            now: Timestamp,
        ) -> Result<(), ChallengeRefusal> {
            self.redeem(&self.present(keys, sale, buyer, id, answer, now)?)
        }
    }

    fn redeem(challenges: &Challenges, id: &str, answer: &str) -> Result<(), ChallengeRefusal> {
        challenges.redeem_as(&ring(), (sale(), &ann()), id, answer, START)
    }

    fn answer_to(work: &ProofOfWork) -> String {
        let mut answers = (0u32..).map(|number| number.to_string());
        answers.find(|answer| solves(&work.salt, answer, work.difficulty)).unwrap()
    }

    fn wrong_answer_to(work: &ProofOfWork) -> String {
        let mut answers = (0u32..).map(|number| number.to_string());
        answers.find(|answer| !solves(&work.salt, answer, work.difficulty)).unwrap()
    }

    #[test]
    fn a_proof_of_work_is_leading_zero_bits_of_a_hash() {
        // SHA-256("abc") starts with ba7816bf.
        assert!(solves("ab", "c", 0));
        assert!(!solves("ab", "c", 1));
        let solved = (0..100_000u32).map(|number| number.to_string()).find(|answer| {
            let digest = Sha256::digest(format!("salt{answer}"));
            digest[0] == 0 && digest[1] == 0b0000_0001
        });
        let answer = solved.unwrap();
        assert!(solves("salt", &answer, 15));
        assert!(!solves("salt", &answer, 16));
        assert!(!solves("", &"x".repeat(MAX_ANSWER_BYTES + 1), 0));
    }

    #[test]
    fn a_solved_challenge_is_redeemed_once() {
        let challenges = Challenges::new(OPTIONS);
        let work = proof_of_work(&challenges, 1);
        let answer = answer_to(&work);
        assert_eq!(work.expires_at, START.plus_seconds(LIFETIME_SECONDS));
        assert_eq!(redeem(&challenges, &work.id, &answer), Ok(()));
        assert_eq!(redeem(&challenges, &work.id, &answer), FAILED);
    }

    #[test]
    fn a_captcha_is_redeemed_once_in_upper_or_lower_case() {
        let challenges = Challenges::new(OPTIONS);
        for (nonce, answer) in ["KdM7x", "kdm7x", "KDM7X", " kDm7X "].into_iter().enumerate() {
            let captcha = captcha(&challenges, nonce as u64);
            assert_eq!(redeem(&challenges, &captcha.id, answer), Ok(()), "{answer}");
            assert_eq!(redeem(&challenges, &captcha.id, answer), FAILED);
        }
    }

    #[test]
    fn a_wrong_answer_uses_up_the_challenge() {
        let challenges = Challenges::new(OPTIONS);
        let work = proof_of_work(&challenges, 1);
        assert_eq!(redeem(&challenges, &work.id, &wrong_answer_to(&work)), FAILED);
        assert_eq!(redeem(&challenges, &work.id, &answer_to(&work)), FAILED);
        let too_long = format!("KdM7x{}", " ".repeat(MAX_ANSWER_BYTES));
        for (nonce, wrong) in ["", "KdM7", "KdM7xx", "KdM7y", &too_long].iter().enumerate() {
            let captcha = captcha(&challenges, nonce as u64);
            assert_eq!(redeem(&challenges, &captcha.id, wrong), FAILED, "{wrong}");
            assert_eq!(redeem(&challenges, &captcha.id, "KdM7x"), FAILED);
        }
    }

    #[test]
    fn every_challenge_is_different() {
        let challenges = Challenges::new(OPTIONS);
        let (one, other) = (proof_of_work(&challenges, 1), proof_of_work(&challenges, 2));
        assert_ne!(one.salt, other.salt);
        assert_ne!(captcha(&challenges, 1).id, captcha(&challenges, 2).id);
        let answer = URL_SAFE_NO_PAD.decode(captcha(&challenges, 1).id).unwrap();
        let same_answer = URL_SAFE_NO_PAD.decode(captcha(&challenges, 2).id).unwrap();
        assert_ne!(answer[HEAD_BYTES..CAPTCHA_BYTES], same_answer[HEAD_BYTES..CAPTCHA_BYTES]);
    }

    #[test]
    fn a_challenge_is_good_for_its_buyer_and_sale_only() {
        let challenges = Challenges::new(OPTIONS);
        let (work, captcha) = (proof_of_work(&challenges, 1), captcha(&challenges, 2));
        let (other_sale, bob) = (SaleId::from_random(43), BuyerId::from_stored("bob"));
        for (id, answer) in [(&work.id, answer_to(&work).as_str()), (&captcha.id, "KdM7x")] {
            assert_eq!(challenges.redeem_as(&ring(), (sale(), &bob), id, answer, START), FAILED);
            assert_eq!(challenges.redeem_as(&ring(), (other_sale, &ann()), id, answer, START), FAILED);
            assert_eq!(redeem(&challenges, id, answer), Ok(()), "nobody else can use it up");
        }
    }

    #[test]
    fn a_challenge_expires() {
        let challenges = Challenges::new(OPTIONS);
        let (first, second) = (captcha(&challenges, 1), captcha(&challenges, 2));
        let redeem_at = |id, now| challenges.redeem_as(&ring(), (sale(), &ann()), id, "KdM7x", now);
        assert_eq!(redeem_at(&first.id, first.expires_at.plus_millis(-1)), Ok(()));
        assert_eq!(redeem_at(&second.id, second.expires_at), FAILED);
    }

    #[test]
    fn a_challenge_with_any_bit_flipped_is_refused_and_the_true_one_stays_good() {
        let challenges = Challenges::new(OPTIONS);
        let (work, captcha) = (proof_of_work(&challenges, 1), captcha(&challenges, 2));
        for (id, answer) in [(&work.id, answer_to(&work).as_str()), (&captcha.id, "KdM7x")] {
            let bytes = URL_SAFE_NO_PAD.decode(id).unwrap();
            for bit in 0..bytes.len() * 8 {
                let mut forged = bytes.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                let forged = URL_SAFE_NO_PAD.encode(forged);
                assert_eq!(redeem(&challenges, &forged, answer), FAILED, "bit {bit}");
            }
            for length in 0..id.len() {
                assert_eq!(redeem(&challenges, &id[..length], answer), FAILED, "length {length}");
            }
            for text in [format!("{id}A"), format!("{id}="), format!("{id}{id}"), id.repeat(1_000)] {
                assert_eq!(redeem(&challenges, &text, answer), FAILED);
            }
            assert_eq!(redeem(&challenges, id, answer), Ok(()));
        }
    }

    #[test]
    fn of_a_hundred_attempts_to_redeem_a_challenge_at_once_one_succeeds() {
        const THREADS: usize = 100;
        let challenges = Challenges::new(OPTIONS);
        let captcha = captcha(&challenges, 1);
        let (successes, barrier) = (AtomicUsize::new(0), Barrier::new(THREADS));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    if redeem(&challenges, &captcha.id, "KdM7x").is_ok() {
                        successes.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(successes.into_inner(), 1);
    }

    #[test]
    fn a_restart_refuses_challenges_given_out_before() {
        let before = Challenges::new(OPTIONS);
        let (captcha, work) = (captcha(&before, 1), proof_of_work(&before, 2));
        let answer = answer_to(&work);
        // The clock after the restart does not matter; it may even show the same moment or an earlier one.
        for now in [START, START.plus_seconds(1), START.plus_millis(-3_600_000)] {
            let restarted = Challenges::new(ChallengeOptions { instance: 6, ..OPTIONS });
            for (id, answer) in [(&captcha.id, "KdM7x"), (&work.id, &answer)] {
                assert_eq!(restarted.redeem_as(&ring(), (sale(), &ann()), id, answer, now), FAILED);
            }
        }
        assert_eq!(redeem(&before, &captcha.id, "KdM7x"), Ok(()));
    }

    #[test]
    fn setting_the_clock_back_refuses_nothing_new_and_makes_nothing_good_again() {
        let challenges = Challenges::new(OPTIONS);
        let ask_at = |nonce, now| challenges.captcha(&ring(), sale(), &ann(), "KdM7x", nonce, now);
        let redeem_at = |id: &str, now| challenges.redeem_as(&ring(), (sale(), &ann()), id, "KdM7x", now);
        // A steady stream, long enough to forget the challenges redeemed first.
        let mut now = START;
        let mut redeemed = Vec::new();
        for nonce in 0..400 {
            now = START.plus_seconds(nonce as u32);
            let captcha = ask_at(nonce, now);
            assert_eq!(redeem_at(&captcha.id, now), Ok(()));
            redeemed.push((captcha.id, now));
        }
        let (unused, back) = (ask_at(400, now), now.plus_millis(-3_600_000));
        let fresh = ask_at(401, back);
        assert_eq!(fresh.expires_at, back.plus_seconds(LIFETIME_SECONDS));
        assert_eq!(redeem_at(&fresh.id, back), Ok(()));
        for (id, used_at) in &redeemed {
            assert_eq!(redeem_at(id, back), FAILED);
            assert_eq!(redeem_at(id, used_at.plus_millis(-3_600_000)), FAILED);
        }
        assert_eq!(redeem_at(&unused.id, back.plus_seconds(LIFETIME_SECONDS)), FAILED, "it still expires");
    }

    #[test]
    fn a_challenge_outlives_one_rotation_of_the_keys_but_not_two() {
        let (first, second, third) = ([1; 32], [2; 32], [3; 32]);
        let challenges = Challenges::new(OPTIONS);
        let old = KeyRing::new(&first, None);
        let captcha = challenges.captcha(&old, sale(), &ann(), "KdM7x", 1, START);
        let work = challenges.proof_of_work(&old, sale(), &ann(), false, 2, START);
        let answer = answer_to(&work);
        for (id, answer) in [(&captcha.id, "KdM7x"), (&work.id, &answer)] {
            let redeem = |keys: KeyRing| challenges.redeem_as(&keys, (sale(), &ann()), id, answer, START);
            assert_eq!(redeem(KeyRing::new(&third, Some(&second))), FAILED);
            assert_eq!(redeem(KeyRing::new(&second, Some(&first))), Ok(()));
        }
    }

    #[test]
    fn a_full_memory_refuses_instead_of_forgetting() {
        let challenges = Challenges::new(ChallengeOptions { max_used: 2, ..OPTIONS });
        let captchas: Vec<_> = (0..3).map(|nonce| captcha(&challenges, nonce)).collect();
        assert_eq!(redeem(&challenges, &captchas[0].id, "KdM7x"), Ok(()));
        assert_eq!(redeem(&challenges, &captchas[1].id, "KdM7x"), Ok(()));
        assert_eq!(redeem(&challenges, &captchas[2].id, "KdM7x"), Err(ChallengeRefusal::Full));
        assert_eq!(redeem(&challenges, &captchas[0].id, "KdM7x"), FAILED);
    }

    #[test]
    fn the_difficulty_rises_with_each_doubling_and_falls_again() {
        let challenges = Challenges::new(OPTIONS);
        assert_eq!(challenges.difficulty(START), 4);
        let mut now = START;
        // Steadily 250, 550, 1,150 and 100,000 per second; both kinds count.
        for (per_10_millis, bits) in [(2.5, 5), (5.5, 6), (11.5, 7), (1_000.0, 10)] {
            let mut due = 0.0;
            for _ in 0..500 {
                now = now.plus_millis(10);
                due += per_10_millis;
                while due >= 1.0 {
                    due -= 1.0;
                    challenges.issued.count(now);
                }
            }
            assert_eq!(challenges.difficulty(now), bits, "{per_10_millis} in 10 ms");
        }
        assert_eq!(challenges.difficulty(now.plus_seconds(10)), 4);
    }

    #[test]
    fn both_kinds_of_challenges_make_the_next_one_harder() {
        let by_work = Challenges::new(OPTIONS);
        let by_captcha = Challenges::new(OPTIONS);
        for nonce in 0..399 {
            proof_of_work(&by_work, nonce);
            captcha(&by_captcha, nonce);
        }
        assert_eq!((by_work.difficulty(START), by_captcha.difficulty(START)), (5, 5));
        assert_eq!(proof_of_work(&by_work, 399).difficulty, 6);
        captcha(&by_captcha, 399);
        assert_eq!(by_captcha.difficulty(START), 6);
    }

    #[test]
    fn the_alternative_to_a_captcha_is_harder_but_never_beyond_the_most() {
        let harder =
            |options| Challenges::new(options).proof_of_work(&ring(), sale(), &ann(), true, 1, START);
        assert_eq!(harder(OPTIONS).difficulty, 6);
        assert_eq!(harder(ChallengeOptions { max_bits: 5, ..OPTIONS }).difficulty, 5);
        let work = harder(OPTIONS);
        let challenges = Challenges::new(OPTIONS);
        let easy = (0u32..).map(|number| number.to_string());
        let mut only_easy =
            easy.filter(|answer| solves(&work.salt, answer, 4) && !solves(&work.salt, answer, 6));
        assert_eq!(redeem(&challenges, &work.id, &only_easy.next().unwrap()), FAILED);
    }
}
