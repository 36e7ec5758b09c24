//! The parts that a node of a cluster depends on, besides the ledger and the records, as `/readyz` and
//! `/metrics` show them.

/// A part that can report its state.
pub trait NodePart: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// What is wrong with it at the moment, if anything. It does not make the node unready: only the ledger
    /// decides whether the node can sell.
    fn trouble(&self) -> Option<String>;

    fn figures(&self) -> Vec<Figure>;
}

/// One figure of a part, with the whole name of its metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub name: &'static str,
    pub help: &'static str,
    pub value: FigureValue,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigureValue {
    /// Goes up and down.
    Gauge(f64),
    /// Only goes up; `_total` is appended to its name.
    Counter(u64),
}
