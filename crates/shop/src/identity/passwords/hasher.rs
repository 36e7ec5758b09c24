//! Computes one argon2id after the other in the same block of memory. It is slow and takes memory on purpose.
//! It does not decide how many run at once.

use argon2::{
    Argon2, Block, Params,
    password_hash::phc::{Ident, Output, ParamsString, PasswordHash, Salt},
};
use subtle::ConstantTimeEq as _;

/// OWASP's recommendation: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

const ALGORITHM: Ident = Ident::new_unwrap("argon2id");
const VERSION: u32 = 19;
const OUTPUT_BYTES: usize = 32;

/// The salt for the password of an unknown phone, so that it takes as long as that of a known one.
const SALT_OF_NOBODY: [u8; Salt::RECOMMENDED_LENGTH] = [0; Salt::RECOMMENDED_LENGTH];

/// The memory of one hash. It is allocated at first use and then kept: an allocator that frees so large a
/// block again and again can't always find one again.
#[derive(Default)]
pub(super) struct Hasher {
    memory: Vec<Block>,
}

impl Hasher {
    /// A new hash with a salt of its own, in the PHC format.
    pub(super) fn hash(&mut self, password: &[u8]) -> Option<String> {
        let mut salt = [0; Salt::RECOMMENDED_LENGTH];
        getrandom::fill(&mut salt).ok()?;
        let params = params()?;
        let hash = PasswordHash {
            algorithm: ALGORITHM,
            version: Some(VERSION),
            params: ParamsString::try_from(&params).ok()?,
            salt: Some(Salt::new(&salt).ok()?),
            hash: Some(Output::new(&self.output(params, password, &salt)?).ok()?),
        };
        Some(hash.to_string())
    }

    /// Whether `hash` belongs to `password`. A hash that is not ours belongs to no password.
    pub(super) fn verify(&mut self, password: &[u8], hash: &str) -> bool {
        let Ok(hash) = PasswordHash::new(hash) else { return false };
        let (Some(salt), Some(wanted)) = (hash.salt, hash.hash) else { return false };
        let is_ours = hash.algorithm == ALGORITHM && hash.version == Some(VERSION);
        let Ok(params) = Params::try_from(&hash.params) else { return false };
        let output = is_ours.then(|| self.output(params, password, salt.as_ref())).flatten();
        output.is_some_and(|output| bool::from(output.ct_eq(wanted.as_bytes())))
    }

    /// Takes as long as `verify`.
    pub(super) fn verify_nobody(&mut self, password: &[u8]) {
        params().and_then(|params| self.output(params, password, &SALT_OF_NOBODY));
    }

    /// None if a hash with these parameters would need more memory than one hash has.
    fn output(&mut self, params: Params, password: &[u8], salt: &[u8]) -> Option<[u8; OUTPUT_BYTES]> {
        let mut output = [0; OUTPUT_BYTES];
        if self.memory.is_empty() {
            self.memory = vec![Block::new(); MEMORY_KIB as usize];
        }
        let hashed = Argon2::from(params).hash_password_into_with_memory(
            password,
            salt,
            &mut output,
            &mut self.memory[..],
        );
        hashed.ok().map(|()| output)
    }
}

fn params() -> Option<Params> {
    Params::new(MEMORY_KIB, PASSES, LANES, None).ok()
}

#[cfg(test)]
mod tests {
    use argon2::PasswordVerifier as _;

    use super::*;

    #[test]
    fn hashes_are_argon2id_with_our_parameters() {
        let mut hasher = Hasher::default();
        let hashed = hasher.hash(b"correct horse").unwrap();
        assert!(hashed.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hashed}");
        assert!(hasher.verify(b"correct horse", &hashed));
        assert!(!hasher.verify(b"wrong horse", &hashed));
        assert_ne!(hasher.hash(b"correct horse").unwrap(), hashed, "each hash has its own salt");
        assert!(
            Argon2::default().verify_password(b"correct horse", hashed.as_str()).is_ok(),
            "other implementations accept it"
        );
    }

    #[test]
    fn a_hash_that_is_not_ours_belongs_to_no_password() {
        let mut hasher = Hasher::default();
        let hashed = hasher.hash(b"correct horse").unwrap();
        for other in [
            String::new(),
            "correct horse".to_owned(),
            hashed.replace("argon2id", "argon2d"),
            hashed.replace("v=19", "v=16"),
            hashed.replace("m=19456", "m=4000000"),
            hashed.replace("t=2", "t=3"),
        ] {
            assert!(!hasher.verify(b"correct horse", &other), "{other}");
        }
        hasher.verify_nobody(b"correct horse");
    }
}
