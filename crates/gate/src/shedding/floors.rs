//! Shedding behind floors of many heights, in simulation.

use std::{fmt, iter, sync::atomic::AtomicUsize, thread};

use super::{
    simulation::{MAX_BATCH, Simulation, SimulationOutcome, TARGET, capacity, full_commit_micros},
    *,
};

/// Loads that are just bearable, slightly too high and far too high, in tenths of the server's capacity.
const LOADS: [u64; 3] = [9, 12, 100];

/// The default bounds and wider ones, each with a low and a high initial limit.
fn limits() -> [SheddingOptions; 4] {
    [(64, 32_768, 64), (64, 32_768, 32_768), (8, 10_000, 8), (8, 10_000, 10_000)]
        .map(|(min, max, initial)| SheddingOptions { min, max, initial, target_latency: TARGET })
}

/// From a few requests to far more than are ever useful.
fn fixed_limits() -> impl Iterator<Item = SheddingOptions> {
    let limits = (4..=13).map(|power| 1 << power);
    limits.map(|limit| SheddingOptions { min: limit, max: limit, initial: limit, target_latency: TARGET })
}

/// A floor and a load. A floor is the time of a commit with nothing in it.
#[derive(Clone, Debug)]
struct Flood {
    floor_micros: u64,
    max_batch: usize,
    per_second: u64,
    /// The seed, if commits take between half and one and a half of their usual time.
    noise: Option<u64>,
}

impl Flood {
    /// All loads at `count` floors. A floor is a part of the target, and each is higher than the one before
    /// by the same factor.
    fn at(count: u32, lowest: f64, highest: f64, max_batch: usize) -> Vec<Self> {
        let factor = (highest / lowest).powf(1.0 / f64::from(count - 1));
        let target_micros = TARGET.as_micros() as f64;
        let floors = (0..count).map(|number| target_micros * lowest * factor.powf(f64::from(number)));
        let floods = floors.flat_map(|floor| LOADS.map(|tenths| (floor as u64, tenths)));
        let flood = |(floor_micros, tenths)| {
            let per_second = capacity(floor_micros, max_batch) * tenths / 10;
            Self { floor_micros, max_batch, per_second, noise: None }
        };
        floods.map(flood).collect()
    }

    /// What the limit achieves over a long time, after the first quarter of it.
    fn under(&self, limit: SheddingOptions) -> SimulationOutcome {
        let mut simulation = Simulation::with(limit);
        (simulation.commit_micros, simulation.max_batch) = (self.floor_micros, self.max_batch);
        if let Some(seed) = self.noise {
            (simulation.is_noisy, simulation.seed) = (true, seed);
        }
        simulation.run_for(self.time() / 4, self.per_second);
        simulation.run_for(self.time(), self.per_second)
    }

    /// At a high floor a window lasts for two commits, and the limit needs several windows.
    fn time(&self) -> Duration {
        Duration::from_secs(15) + Duration::from_micros(200 * self.floor_micros)
    }

    /// The most that any limit can accept: everybody who comes, or full batches.
    fn most(&self) -> f64 {
        let full = 1e6 * self.max_batch as f64 / full_commit_micros(self.floor_micros, self.max_batch) as f64;
        full.min(self.per_second as f64) * self.time().as_secs_f64()
    }

    /// The part of `most` that each limit accepts.
    fn shares(&self) -> [f64; 4] {
        limits().map(|limit| self.under(limit).answered as f64 / self.most())
    }
}

impl fmt::Display for Flood {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { floor_micros, max_batch, per_second, noise } = self;
        write!(
            formatter,
            "a floor of {floor_micros} µs, batches of {max_batch}, {per_second}/s, noise {noise:?}"
        )
    }
}

/// Runs `see` for each flood, on all processors.
fn in_each<T: Send>(floods: &[Flood], see: impl Fn(&Flood) -> T + Sync) -> Vec<(T, &Flood)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let floods = iter::from_fn(|| floods.get(next.fetch_add(1, Relaxed)));
        floods.map(|flood| (see(flood), flood)).collect::<Vec<_>>()
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// All shares, in ascending order, with the name of each case.
fn shares(floods: &[Flood]) -> Vec<(f64, String)> {
    let of_limits = |(shares, flood): ([f64; 4], &Flood)| {
        let limits = limits().map(|limit| (limit.min, limit.initial));
        let flood = flood.to_string();
        let named = limits.map(|(min, initial)| format!("{flood}, at least {min}, from {initial}"));
        shares.into_iter().zip(named)
    };
    let mut shares: Vec<_> = in_each(floods, Flood::shares).into_iter().flat_map(of_limits).collect();
    shares.sort_by(|one, other| one.0.total_cmp(&other.0));
    shares
}

/// Batches fill up soon, so the best fixed limit accepts as much as possible.
#[test]
fn behind_any_floor_nearly_as_many_are_accepted_as_by_the_best_fixed_limit() {
    // A floor is hardest to find where the minimum load takes just as long as the target allows.
    let near_the_target = Flood::at(60, 0.4, 0.55, MAX_BATCH);
    let floods = [Flood::at(60, 0.1, 20.0, MAX_BATCH), near_the_target].concat();
    let shares = shares(&floods);
    eprintln!("{} cases, the worst: {:#?}", shares.len(), &shares[..3]);
    let too_few: Vec<_> = shares.into_iter().take_while(|(share, _)| *share < 0.9).collect();
    assert!(too_few.is_empty(), "{} cases: {too_few:#?}", too_few.len());
}

/// At a high floor a window has one or two commits, so a commit that is slow by chance looks like a queue.
/// That may lower the limit, but not often, not to a trickle, and not for long.
#[test]
fn a_floor_is_found_even_if_commit_times_vary() {
    let floods = (1..=6).flat_map(|seed| {
        Flood::at(16, 0.1, 20.0, MAX_BATCH).into_iter().map(move |flood| Flood { noise: Some(seed), ..flood })
    });
    let shares = shares(&floods.collect::<Vec<_>>());
    let mean = shares.iter().map(|(share, _)| share).sum::<f64>() / shares.len() as f64;
    let below_nine_tenths = shares.iter().filter(|(share, _)| *share < 0.9).count();
    let told = format!("{} cases, mean {mean}, {below_nine_tenths} below: {:#?}", shares.len(), &shares[..3]);
    eprintln!("{told}");
    assert!(mean >= 0.97 && below_nine_tenths * 50 <= shares.len() && shares[0].0 >= 0.7, "{told}");
}

/// If batches are practically unbounded, each additional request sells a little more and makes everybody wait
/// longer. The best fixed limit then makes people wait for seconds.
#[test]
fn with_unbounded_batches_the_limit_is_as_good_as_a_fixed_one_with_the_same_wait() {
    let floods = [512, 4_096].map(|max_batch| Flood::at(14, 0.1, 20.0, max_batch)).concat();
    in_each(&floods, |flood| {
        let fixed: Vec<SimulationOutcome> = fixed_limits().map(|limit| flood.under(limit)).collect();
        let best = fixed.iter().map(|fixed| fixed.answered).max().unwrap_or(0);
        for limit in limits() {
            let outcome = flood.under(limit);
            let waits_no_longer = |fixed: &&SimulationOutcome| fixed.mean_latency() <= outcome.mean_latency();
            let as_quick =
                fixed.iter().filter(waits_no_longer).map(|fixed| fixed.answered).max().unwrap_or(0);
            let case = format!("{flood}, {limit:?}: {} of {as_quick}, {best}", outcome.answered);
            assert!(outcome.answered * 20 >= as_quick * 17, "{case}");
            assert!(outcome.answered * 2 >= best, "{case}");
        }
    });
}
