//! Pictures of letters to read, drawn ahead of the rush: drawing one takes longer than everything else at the
//! gate. A picture is shown only a few times within a few seconds, so collecting pictures with their answers
//! is useless. It knows nothing of buyers, sales and challenges.

use std::{
    collections::VecDeque,
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use captcha::{
    Captcha,
    filters::{Dots, Grid, Noise, Wave},
};
use fastrand::Rng;
use parking_lot::Mutex;
use penstock_domain::Timestamp;

/// The length of an answer: as many characters as people are willing to read.
const CHARACTERS: u32 = 5;
/// Characters that people can't mistake for others, even when bent: no 0 O 1 I l, 2 Z, 5 S, 6 b, 8 B, 9 g q,
/// C G, D Q, U V u n, f t, W, r, and no small p, which looks like D. There are sixteen if upper and lower
/// case count as one, so a million answers.
const ALPHABET: &[char] = &[
    '3', '4', '7', 'A', 'E', 'F', 'H', 'K', 'M', 'N', 'P', 'R', 'T', 'X', 'Y', 'a', 'd', 'e', 'h', 'k', 'm',
    'x', 'y',
];
/// The widest letter is 49 pixels wide, so even five of these fit with their waves.
const WIDTH: u32 = 280;
const HEIGHT: u32 = 100;
/// The most times that a picture is shown. It is shown again only while there is no unseen one.
const MAX_SHOWN: u32 = 4;
/// How long after its first showing a picture may be shown again.
const SHOWN_AGAIN_MILLIS: i64 = 10_000;

/// The answer a picture shows, and its image.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    pub answer: Arc<str>,
    pub png: Arc<[u8]>,
}

/// A pool of pictures. Taking one never waits for one to be drawn.
#[derive(Debug)]
pub struct Pictures {
    capacity: usize,
    seeds: RandomState,
    pool: Mutex<PicturePool>,
}

#[derive(Debug, Default)]
struct PicturePool {
    /// Pictures that nobody has seen.
    fresh: VecDeque<Picture>,
    /// Oldest first.
    shown: VecDeque<Shown>,
    painted: u64,
}

#[derive(Debug)]
struct Shown {
    picture: Picture,
    first_at: Timestamp,
    times: u32,
}

impl Pictures {
    /// Makes an empty pool.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, seeds: RandomState::new(), pool: Mutex::default() }
    }

    /// An unseen picture if there is one, otherwise a recent one that was not shown often. None: pictures are
    /// requested faster than they are drawn.
    pub fn take(&self, random: u64, now: Timestamp) -> Option<Picture> {
        let mut pool = self.pool.lock();
        pool.forget_old(now);
        if let Some(picture) = pool.fresh.pop_front() {
            pool.shown.push_back(Shown { picture: picture.clone(), first_at: now, times: 1 });
            return Some(picture);
        }
        let place = random.checked_rem(pool.shown.len() as u64)? as usize;
        let shown = pool.shown.get_mut(place)?;
        shown.times += 1;
        let picture = shown.picture.clone();
        if shown.times >= MAX_SHOWN {
            pool.shown.remove(place);
        }
        Some(picture)
    }

    /// Draws a picture to fill a gap, or to replace one that was seen. False: there was nothing to do.
    pub fn paint_one(&self) -> bool {
        let seed = {
            let mut pool = self.pool.lock();
            if pool.fresh.len() >= self.capacity {
                return false;
            }
            pool.painted += 1;
            self.seeds.hash_one(pool.painted)
        };
        // The lock is free while a picture is drawn.
        let Some(picture) = paint(seed) else { return false };
        let mut pool = self.pool.lock();
        if pool.fresh.len() >= self.capacity {
            return false;
        }
        if pool.fresh.len() + pool.shown.len() >= self.capacity {
            pool.shown.pop_front();
        }
        pool.fresh.push_back(picture);
        true
    }
}

impl PicturePool {
    fn forget_old(&mut self, now: Timestamp) {
        // Setting the clock back must not make an old picture recent again.
        let is_old = |shown: &Shown| !(0..SHOWN_AGAIN_MILLIS).contains(&now.millis_since(shown.first_at));
        while self.shown.front().is_some_and(is_old) {
            self.shown.pop_front();
        }
    }
}

/// The library picks random letters, but its waves would always be the same.
fn paint(seed: u64) -> Option<Picture> {
    let mut random = Rng::with_seed(seed);
    let grid = Grid::new(random.u32(14..=22), random.u32(12..=18));
    let mut wave = |amplitudes| {
        let (frequency, amplitude) =
            (f64::from(random.u32(12..=24)) / 10.0, f64::from(random.u32(amplitudes)));
        Wave::new(frequency, if random.bool() { amplitude } else { -amplitude })
    };
    let (across, along) = (wave(7..=12).horizontal(), wave(5..=9).vertical());
    let mut captcha = Captcha::new();
    captcha.set_chars(ALPHABET).add_chars(CHARACTERS);
    // The grid is bent together with the letters, so that it can't be removed line by line.
    captcha.apply_filter(grid).apply_filter(across).apply_filter(along).view(WIDTH, HEIGHT);
    // Single pixels are easy to clean away. Dots as thick as the strokes of the letters are not.
    captcha.apply_filter(Dots::new(30).min_radius(1).max_radius(3)).apply_filter(Noise::new(0.12));
    let (answer, png) = captcha.as_tuple()?;
    Some(Picture { answer: answer.into(), png: png.into() })
}

/// Leaves out the picture and the answer, because many people read logs.
impl fmt::Debug for Picture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Picture").field("png_bytes", &self.png.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    fn painted(count: usize, capacity: usize) -> Pictures {
        let pictures = Pictures::new(capacity);
        for _ in 0..count {
            assert!(pictures.paint_one());
        }
        pictures
    }

    fn png_of(pictures: &Pictures, random: u64) -> Arc<[u8]> {
        pictures.take(random, at(0)).unwrap().png
    }

    #[test]
    fn a_picture_shows_five_clear_characters() {
        let pictures = painted(100, 100);
        for _ in 0..100 {
            let picture = pictures.take(0, at(0)).unwrap();
            assert_eq!(picture.answer.chars().count(), 5);
            assert!(picture.answer.chars().all(|character| ALPHABET.contains(&character)));
        }
    }

    #[test]
    fn the_widest_and_the_narrowest_letters_fit_into_a_picture() {
        for letter in ['M', 'e', 'd', 'A'] {
            let mut captcha = Captcha::new();
            captcha.set_chars(&[letter]).add_chars(CHARACTERS);
            let area = captcha.text_area();
            assert!(area.right - area.left + 2 * 9 <= WIDTH, "{letter}");
            assert!(area.bottom - area.top + 2 * 12 <= HEIGHT, "{letter}");
            assert!(captcha.view(WIDTH, HEIGHT).as_png().is_some(), "{letter}");
        }
    }

    #[test]
    fn a_picture_is_a_png_of_the_announced_size() {
        let png = png_of(&painted(1, 1), 0);
        assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
        assert_eq!(png[16..20], WIDTH.to_be_bytes());
        assert_eq!(png[20..24], HEIGHT.to_be_bytes());
    }

    #[test]
    fn an_empty_pool_gives_nothing_until_a_picture_is_painted() {
        assert!(Pictures::new(3).take(0, at(0)).is_none());
        let none = Pictures::new(0);
        assert!(!none.paint_one());
        assert!(none.take(7, at(0)).is_none());
    }

    #[test]
    fn a_pool_of_fresh_pictures_needs_no_painting() {
        let pictures = painted(3, 3);
        assert!(!pictures.paint_one());
        pictures.take(0, at(0));
        assert!(pictures.paint_one());
        assert!(!pictures.paint_one());
    }

    #[test]
    fn pictures_nobody_has_seen_come_first() {
        let pictures = painted(3, 3);
        let first: HashSet<_> = (0..3).map(|_| png_of(&pictures, 0)).collect();
        assert_eq!(first.len(), 3);
        assert!(pictures.paint_one());
        assert!(!first.contains(&png_of(&pictures, 0)));
    }

    /// A collector asks as fast as possible, the painter can't keep up, and every picture is noted.
    #[test]
    fn a_collector_sees_a_picture_only_a_few_times_and_only_for_a_few_seconds() {
        let pictures = painted(20, 20);
        let mut seen: HashMap<Arc<[u8]>, (i64, u32)> = HashMap::new();
        let (mut given, mut refused) = (0, 0);
        for step in 0..4_000_i64 {
            let now = step * 10;
            if step % 20 == 0 {
                pictures.paint_one();
            }
            let Some(picture) = pictures.take(step as u64 * 7_919, at(now)) else {
                refused += 1;
                continue;
            };
            given += 1;
            let (first, times) = seen.entry(picture.png).or_insert((now, 0));
            *times += 1;
            assert!(*times <= MAX_SHOWN && now - *first < SHOWN_AGAIN_MILLIS);
        }
        assert!(refused > 1_000, "a flood is told to come back: {refused} of 4,000");
        assert!(given >= 200 && seen.len() >= 200, "{given} times {} pictures", seen.len());
    }

    #[test]
    fn nobody_sees_a_picture_twice_while_painting_keeps_up() {
        let pictures = painted(20, 20);
        let mut seen = HashSet::new();
        for step in 0..300 {
            assert!(seen.insert(pictures.take(step, at(step as i64 * 50)).unwrap().png));
            pictures.paint_one();
        }
    }

    #[test]
    fn setting_the_clock_back_brings_no_picture_back() {
        let pictures = painted(3, 3);
        (0..3).for_each(|_| drop(pictures.take(0, at(60_000)).unwrap()));
        assert!(pictures.take(0, at(0)).is_none());
    }

    #[test]
    fn the_pool_never_holds_more_than_its_capacity() {
        let pictures = painted(2, 3);
        for _ in 0..10 {
            pictures.take(0, at(0));
            pictures.paint_one();
            pictures.paint_one();
            let pool = pictures.pool.lock();
            assert!(pool.fresh.len() + pool.shown.len() <= 3);
        }
    }

    #[test]
    fn logs_do_not_show_the_answer() {
        let picture = Picture { answer: "KdM7x".into(), png: [1, 2, 3].into() };
        assert_eq!(format!("{picture:?}"), "Picture { png_bytes: 3, .. }");
    }
}
