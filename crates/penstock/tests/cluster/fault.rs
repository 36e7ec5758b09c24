//! What the tests of all faults share: a crowd that buys before, during and after the fault, and a check of
//! everything afterwards.

use std::{
    fmt,
    time::{Duration, Instant},
};

use penstock_testkit::{ADMIN_TOKEN, Auditor, Client, OfferTerms, Random};
use serde_json::json;

use crate::{
    crowd::Crowd,
    trial::{A_LONG_SECOND, Trial, buyer, expect, look, must_buy, patiently, text, within_a_second},
};

/// More than the crowd can buy in the time.
const UNITS: u32 = 100_000;
const UNITS_OF_THE_WITNESS: u32 = 3;
const SOLD_BEFORE: usize = 100;

/// How long to wait before something fails: the seed decides.
pub(crate) fn a_moment(random: &mut Random) -> Duration {
    Duration::from_millis(random.below(1_000))
}

/// A cluster under load, in which something is about to fail.
pub(crate) struct Fault {
    pub(crate) trial: Trial,
    pub(crate) crowd: Crowd,
    /// What the crowd buys.
    pub(crate) sale: String,
    /// A small sale that the fault does not touch. How nodes hear of changes to it afterwards shows that they
    /// still hear each other.
    pub(crate) witness: String,
    /// What the test itself has bought of `sale`.
    pub(crate) own: Auditor,
    began: Option<Instant>,
    during: usize,
}

/// The results.
pub(crate) struct Report {
    promised: usize,
    during: usize,
    asked_again: u64,
    longest_silence: Duration,
    agreed: Duration,
    latched: Duration,
    unlatched: Duration,
    renamed: Duration,
}

impl Fault {
    /// Publishes the sale, and returns when the crowd is buying.
    pub(crate) fn prepare(trial: Trial, random: &mut Random) -> Self {
        Self::prepare_with(trial, OfferTerms::default().hold_seconds, random)
    }

    /// The same, with holds of `hold_seconds`.
    pub(crate) fn prepare_with(trial: Trial, hold_seconds: u32, random: &mut Random) -> Self {
        let offer = OfferTerms { units: UNITS, limit_per_buyer: 2, hold_seconds };
        let sale = trial.publish(offer);
        let witness = OfferTerms { units: UNITS_OF_THE_WITNESS, limit_per_buyer: 3, ..OfferTerms::default() };
        let witness = trial.publish(witness);
        let crowd = Crowd::gather(trial.front(), &sale, random);
        crowd.until_more_are_sold(SOLD_BEFORE);
        Self { trial, crowd, sale, witness, own: Auditor::default(), began: None, during: 0 }
    }

    pub(crate) fn begins(&mut self) {
        self.began = Some(Instant::now());
    }

    /// The fault is over: returns how many orders were sold during it.
    pub(crate) fn ends(&mut self) -> usize {
        let during = self.crowd.sold_between(self.began.take().unwrap(), Instant::now());
        self.during += during;
        during
    }

    /// Sends the crowd home and checks everything: every node shows what the ledger has, hears of changes on
    /// another node, and the audit finds nothing.
    pub(crate) fn finish(self) -> Report {
        let Self { trial, crowd, sale, witness, own, during, .. } = self;
        let (asked_again, longest_silence) = (crowd.asked_again(), crowd.longest_silence());
        let mut auditor = crowd.go_home();
        auditor.merge(own);
        let agreed = trial.until_nodes_agree(&sale);
        assert!(agreed < A_LONG_SECOND, "the nodes show what the ledger has only after {agreed:?}");
        let (latched, unlatched) = news_travel(&trial, &witness);
        let renamed = rename_the_item(&trial, &witness);
        let promised = trial.audit(&auditor);
        Report { promised, during, asked_again, longest_silence, agreed, latched, unlatched, renamed }
    }
}

/// When one node sells out a sale, all of them show it; when somebody cancels, all of them sell it again.
fn news_travel(trial: &Trial, witness: &str) -> (Duration, Duration) {
    let order = must_buy(trial.node(0), witness, "the-last-buyer", UNITS_OF_THE_WITNESS);
    let shows = |state: &str| {
        let nodes = trial.nodes();
        let states = nodes.iter().map(|node| look(*node, witness).map(|seen| seen["state"] == state));
        states.into_iter().all(|shown| shown == Some(true))
    };
    let latched = within_a_second("every node shows that it is sold out", || shows("sold_out"));
    for (number, node) in trial.nodes().into_iter().enumerate() {
        let name = format!("too-late-{number}");
        let answer = patiently("a refusal", || buyer(node, &name).claim(witness, 1, &name));
        assert_eq!((answer.status, answer.code().as_str()), (409, "sold_out"), "{}", answer.text());
    }
    let cancel = format!("/api/v1/orders/{order}/cancel");
    let last = trial.nodes().pop().unwrap();
    let cancelled = patiently("a cancellation", || buyer(last, "the-last-buyer").post_nothing(&cancel));
    expect(200, &cancelled);
    let unlatched = within_a_second("every node sells it again", || shows("open"));
    (latched, unlatched)
}

/// When a merchant changes an item on one node, every node shows it: no cache keeps the old version.
pub(crate) fn rename_the_item(trial: &Trial, sale: &str) -> Duration {
    let last = trial.nodes().pop().unwrap();
    let item = text(&look(last, sale).unwrap()["item"]["id"]);
    let change = json!({ "title": "A phone that lived through it" });
    let (path, body) = (format!("/api/v1/admin/items/{item}"), change.to_string());
    let mut admin = Client::new(last).with_token(ADMIN_TOKEN);
    let changed = patiently("a change", || admin.send("PATCH", &path, &[], Some(body.as_bytes())));
    expect(200, &changed);
    within_a_second("every node shows the item's new title", || {
        let titles = trial.nodes().into_iter().map(|node| Some(look(node, sale)?["item"]["title"].clone()));
        titles.into_iter().all(|title| title == Some(change["title"].clone()))
    })
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promised, during, asked_again, longest_silence, .. } = self;
        let Self { agreed, latched, unlatched, renamed, .. } = self;
        write!(
            formatter,
            "{promised} orders, {during} of them during it, {asked_again} asked again, nobody served for \
             {longest_silence:?} at most; oversold 0, lost 0, duplicated 0; all nodes agree after {agreed:?}, latched after \
             {latched:?}, unlatched after {unlatched:?}, an item changed after {renamed:?}"
        )
    }
}
