//! What a node of a cluster rests on beside the ledger and the records, as `/readyz` and `/metrics` show it.

/// A part that can tell how it is.
pub trait Part: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// What is wrong with it at the moment, if anything. It does not make the node unready: what selling rests on, the
    /// ledger knows.
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
    /// Only goes up; `_total` is put behind its name.
    Counter(u64),
}
